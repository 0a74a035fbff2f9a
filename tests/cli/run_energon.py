"""Run the program in the process of a test, with its input piped and its output captured."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from energon_cli.main import main


@dataclass(frozen=True)
class Done:
    """The result of a command: exit code and output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class RunEnergon(Protocol):
    """Run the program with arguments; ``answers`` are piped to it, a line each."""

    def __call__(self, *arguments: object, answers: Iterable[str] | None = None) -> Done: ...


def run_in_this_process(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    """Return a function that runs the program, which sees one core of this machine."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})

    def run(*arguments: object, answers: Iterable[str] | None = None) -> Done:
        monkeypatch.setattr("sys.stdin", io.StringIO("" if answers is None else "\n".join([*answers, ""])))
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Done(code, *capfd.readouterr())

    return run
