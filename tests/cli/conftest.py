"""Fixtures for the tests of the commands."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from tests.cli.make_dataset import write_captions


@dataclass(frozen=True)
class Done:
    """The result of a command: exit code and output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the program in this process, with one worker by default; ``answers`` are piped to it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})

    def run(*arguments: Any, answers: Any = None) -> Any:
        monkeypatch.setattr("sys.stdin", io.StringIO("" if answers is None else "\n".join([*answers, ""])))
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Done(code, *capfd.readouterr())

    return run


@pytest.fixture
def captions(tmp_path: Path) -> Any:
    """Four shards of three captioned pictures, not prepared."""
    return write_captions(tmp_path / "captions")


@pytest.fixture
def prepared(captions: Any, energon: Any) -> Any:
    """The folder ``captions``, prepared: two shards train, one val, one test."""
    assert energon("prepare", captions, "--yes", "--num-workers", 1).code == 0
    return captions
