"""The scripts of the page about clusters run as they are there, with a ``sbatch`` that runs its jobs at once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loader.dataset.opening import folder_at
from tests.e2e.dataset_tree import write_shards
from tests.pages import blocks, commands, executable, put_energon_on_path
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/prepare-on-a-cluster.md").read_text(encoding="utf-8")
PARTS = 4
"""Instead of 64, to save time."""

SBATCH = f"""#!{sys.executable}
# Run the tasks of a job one after another, with the variables that SLURM sets.
import os, re, subprocess, sys
script = sys.argv[-1]
options = re.findall("#SBATCH (.*)", open(script).read()) + sys.argv[1:-1]
given = dict(option.lstrip("-").partition("=")[::2] for option in options)
variables = {{"SLURM_CPUS_PER_TASK": given["cpus-per-task"]}}
numbers = []
for item in filter(None, given.get("array", "").split(",")):
    first, _, last = item.partition("-")
    numbers += range(int(first), int(last or first) + 1)
for number in numbers or [None]:
    if number is not None:
        array = {{"ID": number, "COUNT": len(numbers), "MIN": min(numbers), "MAX": max(numbers)}}
        variables |= {{f"SLURM_ARRAY_TASK_{{name}}": str(value) for name, value in array.items()}}
    subprocess.run(["bash", script], check=True, env={{**os.environ, **variables}}, stdout=sys.stderr)
print(4711)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten shards, in a folder with the scripts of the page; commands find ``energon`` and ``sbatch``."""
    executable(tmp_path / "bin/sbatch", SBATCH)
    put_energon_on_path(tmp_path / "bin", monkeypatch)
    return write_shards(tmp_path / "my_dataset", 10)


def run(folder: Path, script: str) -> str:
    text = script.replace("/data/my_dataset", str(folder))
    done = subprocess.run(["bash", "-euc", text], cwd=folder.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_the_slurm_scripts_prepare_the_dataset(folder: Path) -> None:
    part, merge, submit = (block.replace("64", str(PARTS)) for block in blocks(PAGE, "bash"))
    (folder.parent / "part.sh").write_text(part)
    (folder.parent / "merge.sh").write_text(merge)
    output = run(folder, submit)
    assert output.count("scanned part ") == PARTS
    assert len(folder_at(folder).index) == 30
    assert folder_at(folder).documents.split is not None


def test_the_parts_of_the_first_example_are_scanned_and_merged(folder: Path) -> None:
    output = run(folder, "\n".join(commands(blocks(PAGE, "console")[0])))
    assert f"prepared {folder}: 30 samples in 10 shards" in output


def test_the_executor_of_the_page_prepares_the_dataset(folder: Path) -> None:
    script = folder.parent / "script.py"
    script.write_text(blocks(PAGE, "python")[0].replace("/data/my_dataset", str(folder)))
    assert run(folder, f"{sys.executable} {script}") == "10 30\n"
