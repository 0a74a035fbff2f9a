"""Count failures and skips of hooks, and decide which skip a sample and which end the run."""

from __future__ import annotations

import errno
import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...errors import (
    ConfigError,
    FatalSampleError,
    FormatError,
    RepeatedSampleError,
    StorageError,
    TrustError,
    as_fatal,
    plural,
)
from ...escaped_log import get_logger
from ...samples.hook_marks import default_failure_tolerance, failure_tolerance
from .error_handlers import (
    Failure,
    FirstFailures,
    SampleErrorHandler,
    joined_names,
    keys_of_sample,
    log_held,
    places_of_sample,
    report_to,
    reraise_exception,
    sources_of_sample,
)

SKIP_TOLERANCE = 20_000
"""Consecutive samples that a hook may skip before it has kept any, by default, unless the data are large."""

_WARN_AT = 10_000
_STOP_AT = 1_000_000  # consecutive samples that a hook may skip after it has kept one
_ROUNDS = 20  # through the data; if one of its samples is good, a lane misses it in this time with probability e^-20

_FAULTS_OF_CODE = (NameError, ImportError, SyntaxError)  # every other sample would fail as well
_FATAL_ERRORS = (
    *_FAULTS_OF_CODE,
    FatalSampleError,
    TrustError,
    ConfigError,
    # A damaged file of a dataset, not one of its samples.
    FormatError,
)
_ERRORS_OF_NAMES = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL})  # a sample names a file that cannot exist
_ERRORS_OF_DISKS = frozenset({errno.EIO, errno.ESTALE})


def ends_run(error: BaseException) -> bool:
    """Return True for an error that says nothing about its sample: a fault of the program, or a read that failed.

    >>> ends_run(NameError()), ends_run(OSError(errno.EIO, "Input/output error")), ends_run(ValueError())
    (True, True, False)
    """
    if isinstance(error, StorageError):
        cause = error.__cause__
        return isinstance(cause, OSError) and cause.errno not in _ERRORS_OF_NAMES
    # Libraries raise subclasses with these numbers for damaged files.
    return isinstance(error, _FATAL_ERRORS) or (type(error) is OSError and error.errno in _ERRORS_OF_DISKS)


Hook = Callable[..., Any] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFailures:
    """Share the counts of failures between the lanes of a worker.

    Attributes:
        is_new: False in a run that is resumed, in which no hook is new.
        passed: The hooks that a sample has passed.
        in_a_row: For each hook that failed last, the number of its failures in a row and the text of the first one: for
            each lane, by its number, and for each dataset, by its path.
    """

    is_new: bool = False
    passed: set[object] = field(default_factory=set)
    in_a_row: dict[object, dict[object, tuple[int, str]]] = field(default_factory=dict)


class FailurePolicy:
    """Count the failures of a lane's hooks, and raise those that end the run.

    Each failure is passed to the handler, and its sample is skipped. The run ends with:

    - a ``FatalSampleError``, or a fault of the program: ``TrustError``, ``ConfigError``, and ``NameError``,
      ``ImportError`` and ``SyntaxError``, which are raised as a ``FatalSampleError``, too;
    - a read that failed, a ``StorageError``, or a damaged file of a dataset, a ``FormatError``;
    - ``tolerance`` consecutive failures of a hook, in the lane, or for samples of one dataset in the worker. What holds
      samples of several datasets, such as a batch, counts for each of them;
    - ten different samples that fail alike, before any other sample, at one line of the user's code (see
      :class:`.FirstFailures`), unless the tolerance is 0 or the run is resumed;
    - any error that the handler raises.

    Samples that a hook skips on purpose (``SkipSample``) count neither as failures nor as successes.

    Args:
        handler: Called for each failure as ``handler(error, sample, sources)`` or ``handler(error, key)``.
        restore_handler: Called instead for samples that fail while a state is restored; these failures do not count.
        lane: The lane's number, for messages.
        tolerance: Consecutive failures of a hook that end the run; 0 and None: as many as ``skip_tolerance``. A stage,
            ``@stateless(failure_tolerance=…)`` or the task encoder's ``__default_failure_tolerance__`` may set another
            number for a hook.
        skip_tolerance: Consecutive samples that a hook may skip before it has kept any, or fail for if it has no other
            tolerance; None: any number. The default grows with the data.
        samples: Samples in a round through the data; each of them comes at least once.
        worker: What the lanes of this worker share; by default the lane is its only one, in a run that is resumed.

    Attributes:
        pending: Not empty while ``succeeded`` has to be called: a hook's last call in a lane, or for a dataset, has
            failed.
        dropped: By reason, the number of samples that hooks skipped or failed for.
        last: The last failure and its error.
        remainder: The stage that dropped samples that all hooks had kept, for ``drop_last``, and why; empty if none.
        samples: As passed.
        skip_tolerance: As passed, but grown with the data.

    Raises:
        ConfigError: The tolerance is negative, or the handler takes other arguments.
    """

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        restore_handler: Callable[..., Any] = reraise_exception,
        lane: int,
        tolerance: int | None = 100,
        skip_tolerance: int | None = SKIP_TOLERANCE,
        samples: int = 0,
        worker: WorkerFailures | None = None,
    ) -> None:
        self._handler: SampleErrorHandler = three_argument_handler(handler)
        self._restore_handler: SampleErrorHandler = three_argument_handler(restore_handler)
        self._not_rebuilt: tuple[Exception, Hook, Any] | None = None
        self._lane = lane
        self._tolerance = _checked(tolerance or 0)
        # The default grows with the data: a lane may pass through them several times before it meets a good sample.
        if skip_tolerance == SKIP_TOLERANCE:
            skip_tolerance = max(skip_tolerance, min(_ROUNDS * samples, _STOP_AT))
        self.skip_tolerance = skip_tolerance
        self.samples = samples
        worker = worker or WorkerFailures()
        self.pending, self._passed, self._is_new = worker.in_a_row, worker.passed, worker.is_new
        self._first: dict[object, FirstFailures] = {}
        self._skips: dict[tuple[object, str], EndlessSkips] = {}
        self.dropped: Counter[str] = Counter()
        self.remainder = ""
        self.last: tuple[Failure, Exception] | None = None

    def reasons(self) -> str:
        """Return why samples were dropped, most frequent reason first: ``"encode_sample skipped: 40"``."""
        return ", ".join(f"{reason}: {samples}" for reason, samples in self.dropped.most_common())

    def skips_of(self, hook: Hook, name: str | None = None) -> EndlessSkips:
        """Return the counter of a hook's skips; a hook that is opened again, for another pass, has the same one.

        Args:
            hook: The function, or the name of the operation.
            name: Its name in messages; by default the function's.
        """
        name = name or (hook if isinstance(hook, str) else hook_name(hook))
        key = (_identity(hook), name)
        if key not in self._skips:
            self._skips[key] = EndlessSkips(name, self._lane, self.skip_tolerance, self.dropped)
        return self._skips[key]

    def failed(
        self,
        hook: Hook,
        error: Exception,
        sample: Any,
        *,
        datasets: Iterable[str] = (),
        sources: Any = None,
        tolerance: int | None = None,
        samples: int | None = None,
    ) -> None:
        """Count a failure, and pass it to the handler; return if the sample is to be skipped.

        Call it once for each error, in the ``except`` block that caught it.

        Args:
            hook: The function that failed, or the name of the operation.
            error: The error.
            sample: The function's argument: a sample, or a list of samples.
            datasets: The paths of the datasets that the sample is from.
            sources: The files that the sample is from; by default its ``__sources__``. The handler receives them.
            tolerance: Consecutive failures that end the run; None: the number set for the hook.
            samples: Number of samples to count; by default one for each key, and at least one.

        Raises:
            Exception: ``error`` itself if it ends the run, with a note that names hook and sample.
            RepeatedSampleError: The hook failed too often, or has a mistake; ``error`` is the cause.
        """
        # Report the failure; what is logged before the hook's first success may be held back.
        name = _identity(hook)
        first = None if name in self._passed else self._first.setdefault(name, FirstFailures())
        failure = self._report(self._handler, hook, error, sample, sources=sources, held=first and first.held)
        self.last = (failure, error)
        # Count the lost samples, and look up how many failures in a row end the run.
        self.dropped[f"{failure.hook} failed with {type(error).__name__}"] += (
            max(1, len(failure.keys)) if samples is None else samples
        )
        if tolerance is None:
            default = self._tolerance
            tolerance = (
                default if isinstance(hook, str) else failure_tolerance(hook, default_failure_tolerance(hook, default))
            )
        # A hook that fails alike for each of its first samples has a mistake: every other sample would fail, too.
        if first is not None and callable(hook) and tolerance and self._is_new:
            mistake = first.mistake(hook, failure, error, sample)
            if mistake is not None:
                raise mistake from error
        self._count(hook, failure, error, datasets, tolerance)

    def note_rebuilt(self, error: Exception, hook: Hook, sample: Any) -> None:
        """Note the argument of a function that failed while a sample was rebuilt, for :meth:`failed_to_rebuild`."""
        self._not_rebuilt = (error, hook, sample)

    def failed_to_rebuild(self, error: Exception) -> None:
        """Pass a failure while a state is restored to its handler; return if the sample is to be skipped.

        Raises:
            Exception: ``error`` itself if it ends the run, or an error that the handler raises.
        """
        noted, self._not_rebuilt = self._not_rebuilt, None
        hook, sample = noted[1:] if noted is not None and noted[0] is error else ("restoring a state", None)
        self._report(self._restore_handler, hook, error, sample)

    def _report(
        self,
        handler: SampleErrorHandler,
        hook: Hook,
        error: Exception,
        sample: Any,
        *,
        sources: Any = None,
        held: Any = None,
    ) -> Failure:
        if sources is None:
            sources = sources_of_sample(sample)
        failure = Failure(
            hook=hook if isinstance(hook, str) else hook_name(hook),
            lane=self._lane,
            keys=keys_of_sample(sample),
            places=places_of_sample(sample, sources),
            held=held,
        )
        # An error that ends the run is no failure of a sample: the handler does not see it.
        if ends_run(error):
            failure.note_on(error)
            if isinstance(error, _FAULTS_OF_CODE):  # for code that catches the FatalSampleError of megatron-energon
                raise as_fatal(error) from error.__cause__
            raise error
        report_to(handler, failure, error, sample, sources)
        return failure

    def succeeded(self, hook: Hook, datasets: Iterable[str] = ()) -> None:
        """Count a success, which ends the rows of failures of the lane, and of the datasets that the sample is from.

        Call it for the first success, and while :attr:`pending`.

        Args:
            hook: As for :meth:`failed`.
            datasets: As for :meth:`failed`.
        """
        name = _identity(hook)
        rows = self.pending.get(name)
        if rows is not None:
            for row in (self._lane, *datasets):
                rows.pop(row, None)
            if not rows:
                del self.pending[name]
        self._passed.add(name)
        first = self._first.pop(name, None)
        if first is not None:
            log_held(first.held)

    def note_remainder(self, stage: str, samples: int, batch_size: int) -> None:
        """Note the samples that ``drop_last`` of a stage drops."""
        if samples:
            dropped = plural(samples, "sample")
            self.remainder = f"drop_last of {stage} dropped {dropped}, fewer than batch_size={batch_size}"

    def end(self) -> None:
        """Log the failures of hooks that no sample has passed, at the end of the lane."""
        for first in self._first.values():
            log_held(first.held)

    def _count(self, hook: Hook, failure: Failure, error: Exception, datasets: Iterable[str], tolerance: int) -> None:
        name = _identity(hook)
        limit = _checked(tolerance) or self.skip_tolerance
        rows = self.pending.setdefault(name, {})
        for row in (self._lane, *datasets):
            # Keep the first failure of a row for the error: later ones may be its consequences.
            before, first = rows.get(row) or (0, failure.text_of(error))
            count = before + 1
            rows[row] = count, first
            if limit is None or count < limit:
                continue
            more = "@stateless(failure_tolerance=…), 0 for as many as samples may be skipped"
            raise failure.stop(
                f"{failure.hook} failed {plural(count, 'time')} in a row "
                + (f"in lane {row}" if row == self._lane else f"for samples of {row}"),
                error,
                hint="read the warnings about these samples in the log; to allow more failures, pass "
                f"{more if tolerance else 'WorkerConfig(skip_tolerance=…), None for any number'}"
                f"{'' if name in self._passed else failure.key_hint}",
                cause=first,
            ) from error


def _identity(hook: Hook) -> object:
    """Return a key for a hook; a bound method is a new object at each access, but equal to earlier ones."""
    try:
        hash(hook)
    except TypeError:
        return "unhashable", id(hook)  # the chain keeps it alive
    return hook


def hook_name(hook: Callable[..., Any]) -> str:
    """Return the name of a function in messages."""
    while not hasattr(hook, "__name__") and hasattr(hook, "func"):
        hook = hook.func  # functools.partial has no name, but func
    return str(getattr(hook, "__name__", type(hook).__name__))


def stage_and_hook(stage: str, hook: Callable[..., Any]) -> str:
    """Return the name of a stage and of the function that it calls, for messages.

    >>> stage_and_hook("encode_sample", print)
    'encode_sample (print)'
    """
    name = hook_name(hook)
    return name if stage in ("", name) else f"{stage} ({name})"


def _checked(tolerance: int) -> int:
    if tolerance < 0:
        raise ConfigError(
            f"expected a failure tolerance of at least 0, found {tolerance}", hint="pass 0 to allow any number"
        )
    return tolerance


def three_argument_handler(handler: Callable[..., Any]) -> SampleErrorHandler:
    """Return a handler of three arguments for one that takes at most two: ``(error, key)``."""
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # a function written in C may have no signature
        return handler
    # A handler that takes both forms receives the sources, too. A partial pickles, other than a closure.
    forms: tuple[tuple[int, SampleErrorHandler], ...] = ((3, handler), (2, partial(_call_with_key, handler)))
    for count, form in forms:
        with suppress(TypeError):
            signature.bind(*range(count))
            return form
    raise ConfigError(
        f"the error handler {getattr(handler, '__name__', handler)!r} takes other arguments than expected",
        hint="let it take (exception, sample, sources)",
    )


def _call_with_key(handler: Callable[..., Any], error: Exception, sample: Any, sources: Any) -> None:
    del sources
    handler(error, joined_names(keys_of_sample(sample)) or None)


_log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class EndlessSkips:
    """Counter of consecutive samples that a hook skips in a lane; ends a run that would never get another sample.

    The run ends at ``tolerance`` samples if the hook has kept none in this process, and at a million otherwise. A hook
    that keeps one sample in a thousand skips 20,000 in a row once in 500 million runs of a lane.

    Args:
        tolerance: Skips before the first kept sample that end the run; None: no number of skips ends it.
        dropped: By reason, the number of samples that hooks of the lane dropped.
        count: 1 + consecutive skips, so that it is not 0 before the first kept sample. Set it to 0 when a sample is
            kept: the caller has to test it for each sample anyway, so this needs no second test.
    """

    name: str
    lane: int
    tolerance: int | None
    dropped: Counter[str]
    count: int = 1
    has_kept: bool = False
    is_warned: bool = False

    def add(self, samples: int = 1, *, how: str = "skipped") -> None:
        """Count the samples of a skipped item.

        Raises:
            RepeatedSampleError: The hook has skipped too many in a row.
        """
        # Stages set the count to 0 whenever they keep a sample.
        if not self.count:
            self.has_kept, self.is_warned, self.count = True, False, 1
        self.count += samples
        self.dropped[f"{self.name} {how}"] += samples
        skipped = self.count - 1
        # Warn once in a row, before the run ends.
        if skipped >= _WARN_AT and not self.is_warned:
            self.is_warned = True
            _log.warning(
                "%s has skipped the last %d samples of lane %d; is that intended?", self.name, skipped, self.lane
            )
        if self.tolerance is not None and skipped >= (_STOP_AT if self.has_kept else min(self.tolerance, _STOP_AT)):
            raise RepeatedSampleError(
                f"{self.name} has skipped {plural(skipped, 'sample')} in a row in lane {self.lane}"
                f"{'' if self.has_kept else ', and has kept none'}",
                hint="check its condition (SkipSample, or a filter): the run might never get another sample; to allow "
                "more, pass WorkerConfig(skip_tolerance=…), None for any number",
            )
