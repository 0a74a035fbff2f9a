"""Answers about small files that one process got, and others use instead of their own reads.

A run of ten thousand ranks opens the same datasets: each rank reads the same few documents of each. With this module,
one rank records what it reads, and the others answer the same questions from the record. Questions that are not in it
go to the files as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

from .protocol import FileInfo

Answer = bytes | bool | FileInfo | tuple[FileInfo, ...] | tuple[bytes, int]
"""What a store answers: the bytes of a file, whether it exists, its size and time, a listing, or its first bytes."""

_MAX_ANSWER_BYTES = 1 << 24
"""Longer documents are read by each process; a list of 100,000 shards has about as many bytes."""

_R = TypeVar("_R")
_M = TypeVar("_M", bound=Callable[..., Any])


class Answers:
    """A record of answers.

    Args:
        received: The answers of another process; None records the answers of this process.

    Attributes:
        records: True if this process reads the files, and records what it finds.
    """

    def __init__(self, received: dict[tuple[Any, ...], Answer] | None = None) -> None:
        self.records = received is None
        self.found: dict[tuple[Any, ...], Answer] = {} if received is None else received

    def ask(self, question: tuple[Any, ...], read: Callable[[], _R]) -> _R:
        if not self.records and question in self.found:
            return self.found[question]  # type: ignore[return-value]  # a question has answers of one type
        # Errors are not recorded: another process may succeed, or raises the error itself.
        answer = read()
        if isinstance(answer, Iterator):
            answer = tuple(answer)  # type: ignore[assignment]  # a listing, which is read again and again
        if self.records and not (isinstance(answer, bytes) and len(answer) > _MAX_ANSWER_BYTES):
            self.found[question] = answer  # type: ignore[assignment]
        return answer


answers_here: ContextVar[Answers | None] = ContextVar("energon_answers", default=None)
"""The record that stores opened here take part in; None if answers are not shared."""


@contextmanager
def use_answers(answers: Answers) -> Iterator[None]:
    """Let the stores that the block opens take part in a record, also after the block."""
    token = answers_here.set(answers)
    try:
        yield
    finally:
        answers_here.reset(token)


def has_answers(storage: object) -> bool:
    """Return True if another process has read and checked the small files of a store."""
    answers: Answers | None = getattr(storage, "answers", None)
    return answers is not None and not answers.records


def shared(method: _M) -> _M:
    """Decorate a method of a store that reads or lists small files, so that it takes part in the store's record."""

    @wraps(method)
    def ask(self: Any, name: str = "", *args: Any, **options: Any) -> Any:
        if self.answers is None:
            return method(self, name, *args, **options)
        question = (method.__name__, self.path(name), *args, *options.values())
        answers: Answers = self.answers
        return answers.ask(question, lambda: method(self, name, *args, **options))

    return cast("_M", ask)
