"""The wheel of this project, and environments with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed_wheel import Environment, make_environment, unpack
from tests.source_tree import ROOT

BUILD = """\
import sys
from setuptools import build_meta
wheel, editable = sys.argv[1:]  # building changes them
build_meta.build_wheel(wheel)
build_meta.build_editable(editable)
"""


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the wheel, and the files of an editable install."""
    source = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("energon_cli", "loader"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, source)
    for name in ("wheel", "editable"):
        (source / "built" / name).mkdir(parents=True)
    command = [sys.executable, "-c", BUILD, "built/wheel", "built/editable"]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,), (editable,) = ([*(source / "built" / name).glob("*.whl")] for name in ("wheel", "editable"))
    return wheel, editable


@pytest.fixture
def environment(tmp_path: Path, wheels: tuple[Path, Path]) -> Environment:
    made = make_environment(tmp_path / "venv")
    unpack(wheels[0], made)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create the working folder of the user."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
