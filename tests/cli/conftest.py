"""Fixtures for the tests of the commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from energon_cli.main import main
from tests.cli.make_dataset import write_captions
from tests.cli.run_energon import RunEnergon, run_in_this_process


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    """Run the program in this process, with one worker by default; ``answers`` are piped to it."""
    return run_in_this_process(capfd, monkeypatch)


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    """Four shards of three captioned pictures, not prepared."""
    return write_captions(tmp_path / "captions")


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_captions(tmp_path_factory.mktemp("pristine") / "captions")
    assert main(["prepare", str(folder), "--yes", "--num-workers", "1"]) == 0
    return folder


@pytest.fixture
def prepared(pristine: Path, captions: Path) -> Path:
    """The folder ``captions``, prepared: two shards train, one val, one test."""
    return Path(shutil.copytree(pristine, captions, dirs_exist_ok=True))
