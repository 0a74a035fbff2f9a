"""Scripts written for megatron-energon observe the same with this library, or a documented difference."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .moving_page import SCRIPTS

COMPAT = Path(__file__).with_name("compat")


@pytest.fixture(scope="module")
def work_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compat")


@pytest.mark.timeout(900)  # the longest takes four minutes on busy cores, a hang of megatron-energon three more
@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_script_of_a_user(script: Path, work_folder: Path) -> None:
    folder = os.environ.get("ENERGON_PEER_BIN")
    if folder is None:
        pytest.skip("set ENERGON_PEER_BIN to the bin folder of a venv with megatron-energon")
    options = ("--peer-bin", folder, "--work-folder", str(work_folder))
    done = subprocess.run(
        [sys.executable, COMPAT / "run.py", *options, script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
