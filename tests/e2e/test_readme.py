"""The first lines of README.md run as they stand, from a clone to a batch."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.source_tree import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"^```console\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)[0]
PYTHON = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)[0]


def test_the_script_that_is_shown_is_the_one_that_is_run() -> None:
    assert (ROOT / "docs/first_batch.py").read_text(encoding="utf-8") == PYTHON


def test_the_page_is_short_and_begins_with_commands() -> None:
    assert len(TEXT.split()) <= 700
    assert len(TEXT.partition("```console")[0].split()) <= 60


def test_the_home_page_of_the_documentation_has_the_same_first_screen() -> None:
    first_screen = TEXT.partition("![energon browse")[0]
    assert (ROOT / "docs/index.md").read_text(encoding="utf-8").startswith(first_screen)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_line_runs_in_a_fresh_environment(tmp_path: Path) -> None:
    lines = [line.removeprefix("$ ") for line in CONSOLE.splitlines()]
    assert len(lines) == 6
    lines = [f"{line.partition('  #')[0]} || [ $? -eq 1 ]" if " lint " in line else line for line in lines]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ENERGON_", "PYTHON"))}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={**environment, "URL": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert re.search(r"^0 CaptioningSample$.*^2 CaptioningSample$", done.stdout, flags=re.MULTILINE | re.DOTALL)
    assert "Traceback" not in done.stderr
