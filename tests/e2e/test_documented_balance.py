"""The training script of the page on equal work runs, and packers of installed packages are found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed_package import install
from tests.source_tree import ROOT


@pytest.mark.slow
def test_the_script_of_the_page_on_equal_work_balances_and_resumes() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "docs/train_balanced.py"), "12"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    line = r"balance=(.+): max/mean tokens of a step (\d\.\d+), ranks wait \d+% of the time"
    (_, without), (cost, balanced) = re.findall(line, done.stdout)
    assert cost == "'vision_tokens + txt_chars'"
    assert float(balanced) < 1.1 < float(without)
    assert done.stdout.splitlines()[-1] == "resumed on 2 ranks: 16 micro-batches, the same: True"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed package of the page on packers."""
    return install(ROOT / "docs/how-to/write-a-packer.md", tmp_path_factory.mktemp("package"))


def test_the_packer_of_an_installed_package_has_a_name(site: Path) -> None:
    code = "import loader.packing as p; print([pack.tolist() for pack in p.packer_named('in_turn')([4, 7, 4, 2], 10)])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": f"{site}:{ROOT}"},
    )
    assert done.stdout == "[[0], [1], [2, 3]]\n"
