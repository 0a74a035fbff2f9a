"""The wheel of ``make shim`` is named megatron-energon, has no code, and is not taken for a mixed installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import loader
from tests.source_tree import ROOT

BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
ASK = "from importlib import metadata as m; print(m.version('megatron-energon'), m.requires('megatron_energon')[0])"
VERSION = "import sys; from energon_cli.main import main; sys.exit(main(['--version']))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("shim") / "source"
    shutil.copytree(ROOT / "shim", source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    run(BUILD, "built", folder=source)
    (built,) = (source / "built").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a folder with pip."""
    folder = tmp_path_factory.mktemp("installed")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(folder),
        str(wheel),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def run(code: str, *arguments: str, folder: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that searches a folder before all others."""
    entries = [str(entry) for entry in (path, ROOT) if entry] + os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, entries))}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=True)


def test_it_has_no_code(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folders = {name.partition("/")[0] for name in archive.namelist()}
    assert folders == {"megatron_energon-7.4.1.dist-info"}


def test_programs_that_ask_for_the_version_of_megatron_energon_get_one(installed: Path, tmp_path: Path) -> None:
    assert run(ASK, folder=tmp_path, path=installed).stdout == "7.4.1 energon-toolkit\n"


def test_it_is_no_mixed_installation(installed: Path, tmp_path: Path) -> None:
    done = run(VERSION, folder=tmp_path, path=installed)
    assert (done.stdout, done.stderr) == (f"energon {loader.__version__}\n", "")


def test_the_original_is_reported_in_the_same_place(installed: Path, tmp_path: Path) -> None:
    original = shutil.copytree(installed, tmp_path / "original")
    metadata = original / "megatron_energon-7.4.1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Requires-Dist: energon-toolkit\n", "Requires-Dist: torch\n"))
    assert "megatron-energon 7.4.1 is also installed" in run(VERSION, folder=tmp_path, path=original).stderr
