"""``energon doctor``: its output and its exit codes."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.source_tree import ROOT

KEYS = {
    "toolkit", "python", "packages", "extras", "gpus", "machine_cores", "usable_cores", "cgroup_cores", "memory_bytes",
    "cgroup_memory_bytes", "open_files", "open_files_hard", "locked_memory_bytes", "shared_memory", "temporary",
    "cache", "findings",
}  # fmt: skip


def doctor(*arguments: str, open_files: int, environment: dict[str, str] | None = None) -> Any:
    """Run the command in a process that may open a number of files."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    variables = {name: value for name, value in os.environ.items() if name != "ENERGON_CACHE_DIR"}
    return subprocess.run(
        [sys.executable, "-m", "energon_cli", "doctor", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=variables | (environment or {}),
        preexec_fn=limit,
        check=False,
    )


def test_a_finding_exits_1_and_says_what_to_do() -> None:
    done = doctor(open_files=512)
    assert (done.returncode, done.stderr) == (1, "")
    assert "open files       512, may be raised to " in done.stdout
    assert "warning open files: a process may open 512 files" in done.stdout
    assert "  hint: " in done.stdout


def test_facts_are_in_columns_with_a_line_for_gpus_and_one_for_what_to_install(tmp_path: Path) -> None:
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559 MiB'\necho 'NVIDIA H100 80GB HBM3, 81559 MiB'\n")
    driver.chmod(0o755)
    done = doctor(open_files=1024, environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    lines = {line[:17].strip(): line[17:] for line in reversed(done.stdout.partition("\n\n")[0].splitlines())}
    assert lines["GPUs"] == "NVIDIA H100 80GB HBM3, 81559 MiB; NVIDIA H100 80GB HBM3, 81559 MiB"
    assert lines["to install"].startswith(("pip install 'energon-toolkit[", "nothing"))
    packages = done.stdout.partition("packages")[2].partition("extras")[0].splitlines()
    starts = [[found.start() for found in re.finditer(r"(?<=  )\S", f"  {line[17:]}")] for line in packages[1:] if line]
    assert len(packages) > 2
    assert {start for line in starts for start in line} == {*max(starts, key=len)}


def test_findings_and_facts_are_printed_as_json(tmp_path: Path) -> None:
    import json

    done = doctor("--json", open_files=512, environment={"ENERGON_CACHE_DIR": str(tmp_path)})
    document = json.loads(done.stdout)
    assert set(document) == KEYS
    assert document["open_files"] == 512
    assert document["cache"]["path"] == str(tmp_path)
    assert "open files" in {finding["subject"] for finding in document["findings"]}
    assert done.returncode == 1


def test_the_exit_code_is_0_exactly_without_findings() -> None:
    import json

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    done = doctor("--json", open_files=hard if hard > 0 else 1 << 16)
    assert done.returncode == int(bool(json.loads(done.stdout)["findings"]))


def test_it_does_not_import_torch() -> None:
    code = "import sys; from energon_cli.main import main; main(['doctor']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=False).returncode == 0
