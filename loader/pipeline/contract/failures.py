"""Count failures and skips of hooks, and decide which skip a sample and which end the run."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError, FatalSampleError, SampleError, TrustError
from ...samples.hooks import failure_tolerance
from .error_handlers import Failure, SampleErrorHandler, report_to
from .sample_name import joined_names, keys_of_sample, places_of_sample

__all__ = ["EndlessSkips", "FailurePolicy", "three_argument_handler"]

_MAX_FAILED_FIRST_CALLS = 10
"""A hook that fails in each of its first calls is broken, whatever the samples are."""

_REPORTED_SUCCESSES = 1024
"""Successes after which a lane's policy no longer needs reports of further ones."""

_FATAL_ERRORS = (
    FatalSampleError,
    # Faults of the program: every other sample would fail as well.
    NameError,
    ImportError,
    SyntaxError,
    NotImplementedError,
    TrustError,
    ConfigError,
)

Hook = Callable[..., Any] | str


class FailurePolicy:
    """Count the failures of a lane's hooks, and raise those that end the run.

    Each failure is passed to the handler, and its sample is skipped. The run ends with:

    - a ``FatalSampleError``, or a fault of the program: ``NameError``, ``ImportError``, ``SyntaxError``,
      ``NotImplementedError``, ``TrustError``, ``ConfigError``;
    - failures in all of a hook's first 10 calls;
    - ``tolerance`` consecutive failures of a hook;
    - any error that the handler raises.

    Samples that a hook skips on purpose (``SkipSample``) count neither as failures nor as successes.

    Args:
        handler: Called for each failure as ``handler(error, sample, sources)`` or ``handler(error, key)``.
        lane: The lane's number, for messages.
        tolerance: Consecutive failures of a hook that end the run; ``@stateless(failure_tolerance=…)`` sets another
            number for a hook. 0 and None: no number of failures ends it, also not of first calls.
        resumed: The lane resumes from a saved state, so its hooks have had their first calls. (Otherwise bad samples
            that did not end a run would end it when it is restored right before them.)

    Raises:
        ConfigError: The tolerance is negative, or the handler takes other arguments.
    """

    __slots__ = ("_awaited_successes", "_handler", "_in_a_row", "_lane", "_proven", "_tolerance", "pending")

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
        self._awaited_successes = 0 if resumed else _REPORTED_SUCCESSES
        self.pending = not resumed
        """True while ``succeeded`` has to be called."""

    def failed(self, hook: Hook, error: Exception, sample: Any, *, sources: Any = None) -> None:
        """Count a failure, and pass it to the handler; return if the sample is to be skipped.

        Call it once for each error, in the ``except`` block that caught it.

        Args:
            hook: The function that failed, or the name of the operation.
            error: The error.
            sample: The function's argument: a sample, or a list of samples.
            sources: The files that the sample is from; by default its ``__sources__``.

        Raises:
            Exception: ``error`` itself if it ends the run, with a note that names hook and sample.
            SampleError: The hook failed too often; ``error`` is the cause.
        """
        failure = Failure(
            hook=hook if isinstance(hook, str) else _name(hook),
            lane=self._lane,
            keys=keys_of_sample(sample),
            places=places_of_sample(sample, sources),
        )
        if isinstance(error, _FATAL_ERRORS):
            failure.note_on(error)
            raise error
        report_to(self._handler, failure, error, sample, sources)
        self._count(hook, failure, error)

    def succeeded(self, hook: Hook) -> None:
        """Count a success, which ends a series of failures; call it for each one while :attr:`pending`."""
        name = _identity(hook)
        self._in_a_row.pop(name, None)
        if self._awaited_successes:
            self._awaited_successes -= 1
            self._proven.add(name)
        elif not self._in_a_row:
            self.pending = False

    def _count(self, hook: Hook, failure: Failure, error: Exception) -> None:
        name = _identity(hook)
        count = self._in_a_row.get(name, 0) + 1
        if count == 1 and not self._awaited_successes:
            self._proven.add(name)  # its earlier successes need not have been reported
        self._in_a_row[name] = count
        self.pending = True
        tolerance = self._tolerance if isinstance(hook, str) else _checked(failure_tolerance(hook, self._tolerance))
        if not tolerance:
            return
        if count == _MAX_FAILED_FIRST_CALLS and name not in self._proven:
            raise failure.stop(
                f"{failure.hook} failed in all of its first {count} calls",
                error,
                hint="fix it; to skip samples on purpose, raise SkipSample",
            ) from error
        if count >= tolerance:
            raise failure.stop(
                f"{failure.hook} failed {count} time{'s' if count > 1 else ''} in a row in lane {self._lane}",
                error,
                hint="read the warnings about these samples in the log; to allow more failures, pass "
                "@stateless(failure_tolerance=…), 0 for any number",
            ) from error


def _identity(hook: Hook) -> object:
    """Return a key for a hook; a bound method is a new object at each access, but equal to earlier ones."""
    try:
        hash(hook)
    except TypeError:
        return _Unhashable(hook)
    return hook


class _Unhashable:
    """Key for a callable that has no hash: equal only for the same object."""

    __slots__ = ("_hook",)

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unhashable) and self._hook is other._hook

    def __hash__(self) -> int:
        return id(self._hook)


def _name(hook: Callable[..., Any]) -> str:
    while not hasattr(hook, "__name__") and hasattr(hook, "func"):
        hook = hook.func  # functools.partial has no name, but func
    return str(getattr(hook, "__name__", type(hook).__name__))


def _checked(tolerance: int) -> int:
    if tolerance < 0:
        raise ConfigError(
            f"expected a failure tolerance of at least 0, found {tolerance}", hint="pass 0 to allow any number"
        )
    return tolerance


def three_argument_handler(handler: Callable[..., Any]) -> SampleErrorHandler:
    """Return a handler of three arguments for one that takes three, or two: ``(error, key)``.

    Raises:
        ConfigError: The handler takes other arguments.
    """
    count = _arguments(handler)
    if count == 2:
        return _KeyHandler(handler)
    if count != 3:
        raise ConfigError(
            f"the error handler {getattr(handler, '__name__', handler)!r} takes other arguments than expected",
            hint="let it take (exception, sample, sources)",
        )
    return handler


@dataclass(frozen=True, slots=True)
class _KeyHandler:
    """Adapter for handlers of the form ``handler(error, key)``."""

    handler: Callable[[Exception, str | None], Any]

    def __call__(self, error: Exception, sample: Any, sources: Any) -> None:
        del sources
        self.handler(error, joined_names(keys_of_sample(sample)) or None)


def _arguments(handler: Callable[..., Any]) -> int:
    """Return the number of positional arguments to pass to a handler; 0 if it takes neither two nor three."""
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # a function written in C may have no signature
        return 3
    parameters = list(signature.parameters.values())
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 2 and positional[2].default is not inspect.Parameter.empty and positional[2].name != "sources":
        return 2  # an optional parameter of the handler that is not meant for sources
    for count in (3, 2):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    return 0


_log = logging.getLogger(__name__)

_WARN_AT = 10_000
_STOP_AT = 1_000_000


class EndlessSkips:
    """Counter of consecutive skips by a hook in a lane: warns at 10,000, and ends the run at a million.

    Args:
        name: The hook's name.
        lane: The lane's number.
    """

    __slots__ = ("_lane", "_name", "count")

    def __init__(self, name: str, lane: int) -> None:
        self._name = name
        self._lane = lane
        self.count = 0
        """Consecutive skips so far; set it to 0 when an item is not skipped."""

    def add(self) -> None:
        """Count a skip.

        Raises:
            SampleError: It is the millionth in a row.
        """
        self.count += 1
        if self.count == _WARN_AT:
            _log.warning(
                "%s has skipped the last %d samples of lane %d; is that intended?", self._name, self.count, self._lane
            )
        elif self.count >= _STOP_AT:
            raise SampleError(
                f"{self._name} has skipped {self.count} samples in a row in lane {self._lane}",
                hint="check its condition (SkipSample, or a filter): the run would never get another sample",
            )
