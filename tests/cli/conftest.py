"""Fixtures for the tests of the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.fixture
def prepared(captions: Path, energon: RunEnergon) -> Path:
    """The folder ``captions``, prepared: two shards train, one val, one test."""
    assert energon("prepare", captions, "--yes", "--num-workers", 1).code == 0
    return captions
