"""The commands of the how-to "Find what is wrong with your data" find each planted fault, as the page shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import blocks, put_energon_on_path
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/find-what-is-wrong.md").read_text(encoding="utf-8")


def test_each_command_of_the_page_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_energon_on_path(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    shown = 0
    for block in blocks(PAGE, "console"):
        output = ""
        for line in block.splitlines():
            if not line.startswith("$ "):
                assert line.strip() in output, f"the page shows {line!r}; found:\n{output}"
                shown += 1
                continue
            command = line[2:].replace("python ", f"{sys.executable} ", 1)
            done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
            output = done.stdout + done.stderr
            assert done.returncode in (0, 1), output
    assert shown == 13
