"""The type of the fixture ``energon``, which runs the program in the process of the test."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol


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
