"""One of the logical sample streams of a run, as the stages of its chain see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...order import mix
from ...samples.hooks import HookContext
from .error_handlers import reraise_exception
from .failures import FailurePolicy

__all__ = ["Lane", "LastSample"]

_CHILD = 20  # what a random number is for; part of its name


class LastSample(Protocol):
    """Where a worker process notes what it is working on, for whoever finds it dead or hanging."""

    @property
    def note_position(self) -> Callable[[int], Any]:
        """What is told the position of each sample that is begun; called for every one."""

    def note_lane(self, lane: int) -> None:
        """Say of which lane they are from now on."""


class _Nobody:
    note_position = bool  # forgets it

    def note_lane(self, lane: int) -> None:
        """Forget it."""


class Lane:
    """What a chain of stages is opened for.

    Args:
        number: The lane, in ``[0, count)``.
        count: L, the lanes of the run.
        seed: Of the run; that of an inner dataset is its own.
        failures: What to do about samples that fail.
        context: What hooks see of the batch and sample they work on.
        last_sample: Where the position is noted before a sample is read.
        restore_error_handler: What to do about one that fails while a state is restored.
        path: Which of the inner datasets of a blend this is for, and of theirs: ``"1/0/"``.
    """

    __slots__ = ("context", "count", "failures", "last_sample", "number", "path", "restore_error_handler", "seed")

    def __init__(
        self,
        number: int,
        count: int,
        *,
        seed: int,
        failures: FailurePolicy,
        context: HookContext | None = None,
        last_sample: LastSample | None = None,
        restore_error_handler: Callable[[Exception, Any, Any], None] = reraise_exception,
        path: str = "",
    ) -> None:
        self.number = number
        self.count = count
        self.restore_error_handler = restore_error_handler
        self.path = path
        self.seed = seed
        self.failures = failures
        self.context = context or HookContext()
        self.last_sample: LastSample = last_sample or _Nobody()

    def child(self, place: int) -> Lane:
        """Give the lane as the ``place``-th of several inner datasets sees it: the same, but for the seed."""
        return Lane(
            self.number,
            self.count,
            seed=int(mix(self.seed, _CHILD, place)),
            failures=self.failures,
            context=self.context,
            last_sample=self.last_sample,
            restore_error_handler=self.restore_error_handler,
            path=f"{self.path}{place}/",
        )
