"""Fixtures for the tests of the commands."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from energon_cli.main import main
from tests.cli.make_dataset import write_captions
from tests.cli.run_energon import Done, RunEnergon


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    """Run the program in this process, with one worker by default; ``answers`` are piped to it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})

    def run(*arguments: object, answers: Iterable[str] | None = None) -> Done:
        monkeypatch.setattr("sys.stdin", io.StringIO("" if answers is None else "\n".join([*answers, ""])))
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Done(code, *capfd.readouterr())

    return run


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    """Four shards of three captioned pictures, not prepared."""
    return write_captions(tmp_path / "captions")


@pytest.fixture
def prepared(captions: Path, energon: RunEnergon) -> Path:
    """The folder ``captions``, prepared: two shards train, one val, one test."""
    assert energon("prepare", captions, "--yes", "--num-workers", 1).code == 0
    return captions
