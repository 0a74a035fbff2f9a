"""Which failures leave a sample out, and which stop the run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ...errors import ConfigError, FatalSampleError, SampleError, TrustError
from ...samples.hooks import failure_tolerance
from .error_handlers import Failure, SampleErrorHandler, report_to, three_argument_handler
from .sample_name import keys_of_sample, places_of_sample

__all__ = ["EndlessSkips", "FailurePolicy"]

_FIRST_CALLS = 10
"""A hook that fails in all of its first calls is broken, whatever the samples are."""

_LEARNING = 1024
"""Successes reported to a lane's policy before it stops listening to those of hooks that do well."""

_STOP_AT_ONCE = (
    FatalSampleError,
    # These are faults of the program, which no other sample would not have.
    NameError,
    ImportError,
    SyntaxError,
    NotImplementedError,
    TrustError,
    ConfigError,
)

Hook = Callable[..., Any] | str


class FailurePolicy:
    """Count the failures of a lane's hooks, and decide which of them stop the run.

    A failure is handed to the handler and then leaves its sample out. What stops the run:

    - a ``FatalSampleError``, and what shows the program to be wrong: ``NameError``, ``ImportError``, ``SyntaxError``,
      ``NotImplementedError``, ``TrustError``, ``ConfigError``;
    - failures in all of a hook's first 10 calls;
    - ``tolerance`` failures of a hook in a row;
    - what the handler raises.

    A sample that is left out on purpose (``SkipSample``) is nothing to report: it neither fails nor succeeds.

    Args:
        handler: Told of each failure as ``handler(error, sample, sources)``; ``handler(error, key)`` works as well.
        lane: The lane's number, for messages.
        tolerance: Failures of a hook in a row that stop the run; a hook may say otherwise by
            ``@stateless(failure_tolerance=…)``. 0 and None: no number of failures does, also not of first calls.
        resumed: The lane goes on from a saved state, so that its hooks have had their first calls. (Otherwise bad
            samples that did not stop a run would stop it when it is restored right before them.)

    Raises:
        ConfigError: The tolerance is negative, or the handler takes other arguments.
    """

    __slots__ = ("_handler", "_in_a_row", "_lane", "_proven", "_tolerance", "_unheard", "pending")

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        lane: int,
        tolerance: int | None = 100,
        resumed: bool = False,
    ) -> None:
        self._handler: SampleErrorHandler = three_argument_handler(handler)
        self._lane = lane
        self._tolerance = _checked(tolerance or 0)
        self._in_a_row: dict[object, int] = {}
        self._proven: set[object] = set()
        self._unheard = 0 if resumed else _LEARNING
        self.pending = not resumed
        """Whether successes are of interest; where it is False, ``succeeded`` need not be called."""

    def failed(self, hook: Hook, error: Exception, sample: Any, *, sources: Any = None) -> None:
        """Count a failure, and hand it to the handler; returns where the sample is to be left out.

        To be called where the error was caught, once for it.

        Args:
            hook: The function that failed, or a name of what did.
            error: What it raised.
            sample: What it was given: a sample, or a list of samples.
            sources: Where the sample lies; by default what its ``__sources__`` say.

        Raises:
            Exception: ``error`` itself, where it stops the run at once, with a note that names hook and sample.
            SampleError: The hook failed too often; ``error`` is its cause.
        """
        failure = Failure(
            hook=hook if isinstance(hook, str) else _name(hook),
            lane=self._lane,
            keys=keys_of_sample(sample),
            places=places_of_sample(sample, sources),
        )
        if isinstance(error, _STOP_AT_ONCE):
            failure.note_on(error)
            raise error
        report_to(self._handler, failure, error, sample, sources)
        self._count(hook, failure, error)

    def succeeded(self, hook: Hook) -> None:
        """Hear of a success, which ends a row of failures; called for each one while :attr:`pending`."""
        name = _identity(hook)
        self._in_a_row.pop(name, None)
        if self._unheard:
            self._unheard -= 1
            self._proven.add(name)
        elif not self._in_a_row:
            self.pending = False

    def _count(self, hook: Hook, failure: Failure, error: Exception) -> None:
        name = _identity(hook)
        count = self._in_a_row.get(name, 0) + 1
        if count == 1 and not self._unheard:
            self._proven.add(name)  # its earlier successes may not have been reported
        self._in_a_row[name] = count
        self.pending = True
        tolerance = self._tolerance if isinstance(hook, str) else _checked(failure_tolerance(hook, self._tolerance))
        if not tolerance:
            return
        if count == _FIRST_CALLS and name not in self._proven:
            raise failure.stop(
                f"{failure.hook} failed in all of its first {count} calls",
                error,
                hint="mend it; to leave samples out on purpose, raise SkipSample instead",
            ) from error
        if count >= tolerance:
            raise failure.stop(
                f"{failure.hook} failed {count} time{'s' if count > 1 else ''} in a row in lane {self._lane}",
                error,
                hint="look at what the log says about these samples; where so many may fail, allow more with "
                "@stateless(failure_tolerance=…), 0 for any number",
            ) from error


def _identity(hook: Hook) -> object:
    """Give what is equal for one hook only; bound methods are made anew at each access, but are equal."""
    try:
        hash(hook)
    except TypeError:
        return _Unhashable(hook)
    return hook


class _Unhashable:
    """An object that can be called, told by its identity."""

    __slots__ = ("_hook",)

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unhashable) and self._hook is other._hook

    def __hash__(self) -> int:
        return id(self._hook)


def _name(hook: Callable[..., Any]) -> str:
    while not hasattr(hook, "__name__") and hasattr(hook, "func"):
        hook = hook.func  # of a functools.partial
    return str(getattr(hook, "__name__", type(hook).__name__))


def _checked(tolerance: int) -> int:
    if tolerance < 0:
        raise ConfigError(
            f"expected a failure tolerance of at least 0, found {tolerance}", hint="give 0 for failures without limit"
        )
    return tolerance


_log = logging.getLogger(__name__)

_WARNED = 10_000
_STOPPED = 1_000_000


class EndlessSkips:
    """Counts the samples in a row that a hook leaves out in a lane: warns of 10,000, and stops the run at a million.

    Args:
        name: What the hook is called.
        lane: The lane's number.
    """

    __slots__ = ("_lane", "_name", "count")

    def __init__(self, name: str, lane: int) -> None:
        self._name = name
        self._lane = lane
        self.count = 0
        """How many were left out in a row; to be set to 0 where one is not."""

    def add(self) -> None:
        """Count one more.

        Raises:
            SampleError: There were a million.
        """
        self.count += 1
        if self.count == _WARNED:
            _log.warning(
                "%s has left out the last %d samples of lane %d; is that wanted?", self._name, self.count, self._lane
            )
        elif self.count >= _STOPPED:
            raise SampleError(
                f"{self._name} has left out {self.count} samples in a row in lane {self._lane}",
                hint="look at what it leaves out (SkipSample, or a filter): the run would wait for a sample for ever",
            )
