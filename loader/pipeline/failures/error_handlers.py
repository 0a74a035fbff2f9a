"""Handlers for samples that fail: log and skip, raise, or a function of the user."""

from __future__ import annotations

import inspect
import sysconfig
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

from ...errors import EnergonError, RepeatedSampleError, error_text, escape_controls
from ...escaped_log import get_logger
from ...format.documents.messages import nearest_hint
from ...own_names import canonical_name
from ...renamed_parameters import renamed_parameters
from ..worker_identity import worker_number

_MAX_SHOWN = 3  # keys or places in a line of the log


def keys_of_sample(sample: Any) -> tuple[str, ...]:
    """Return a sample's key, or the keys of a batch or list of samples; empty if it has none.

    >>> keys_of_sample({"__key__": "a.tar/0001", "txt": b"x"})
    ('a.tar/0001',)
    >>> keys_of_sample([{"__key__": "a.tar/0001"}, {"__key__": "a.tar/0002"}])
    ('a.tar/0001', 'a.tar/0002')
    """
    return tuple(str(key) for key in _members(sample, "__key__"))


def default_get_batch_keys(batch: Any) -> list[str] | None:
    """Return the keys of a batch for :class:`~loader.pipeline.stages.observers.LogSampleDataset`; None if it has none.

    >>> default_get_batch_keys({"__key__": ["a.tar/0001", "a.tar/0002"]}), default_get_batch_keys({})
    (['a.tar/0001', 'a.tar/0002'], None)
    """
    return list(keys_of_sample(batch)) or None


def places_of_sample(sample: Any, sources: Any = None) -> tuple[str, ...]:
    """Return the places of the bytes of a sample, or of a list of samples; empty if not known.

    Args:
        sample: Has the ``__sources__`` to use if ``sources`` is None.
    """
    values = _members(sample, "__sources__") if sources is None else _flat(sources)
    return tuple(str(source) for source in values)


def sources_of_sample(sample: Any) -> list[Any] | None:
    """Return the ``__sources__`` of a sample, or of all samples of a list; None if no sample has any."""
    return _members(sample, "__sources__") or None


def joined_names(names: Sequence[str]) -> str:
    """Join names to a text of bounded length.

    >>> joined_names([f"a.tar/{number}" for number in range(16)])
    'a.tar/0, a.tar/1, a.tar/2 and 13 more'
    """
    left = len(names) - _MAX_SHOWN
    return ", ".join(names[:_MAX_SHOWN]) + (f" and {left} more" if left > 0 else "")


def _members(sample: Any, field: str) -> list[Any]:
    if isinstance(sample, list | tuple):
        return [member for inner in sample for member in _members(inner, field)]
    # A sample may be any object, also one whose __getattr__ returns a value for every name.
    value = sample.get(field) if isinstance(sample, Mapping) else getattr(sample, "__dict__", {}).get(field)
    return _flat(value)


def _flat(value: Any) -> list[Any]:
    """Flatten nested lists: a batch has a list of keys, a batch of packed samples a list of such lists."""
    if value is None:
        return []
    if type(value) in (list, tuple):  # a named tuple is a single source
        return [member for inner in value for member in _flat(inner)]
    return [value]


_ALIKE = 10
"""Different samples that must fail alike. Another error among them, or one sample that passes, shows that data differ.
"""

_KINDS = (AttributeError, KeyError, TypeError)
"""Errors of misspelt names, wrong types and wrong arguments; ``NameError`` and ``ImportError`` end a run at once."""

_OF_SAMPLES = ("loader.samples.types", "loader.samples.sample_dataclass")  # what the user's line calls by ``sample[…]``
_CALLERS = ("loader.pipeline.contract.hook", "loader.pipeline.measuring.recorder")  # they call a hook


@dataclass(slots=True)
class FirstFailures:
    """The failures of a hook in a lane until a sample passes it."""

    # The lines of the log that are held back, by cause; empty if the cause was logged.
    held: dict[Cause, str] = field(default_factory=dict)
    _keys: set[tuple[str, ...]] = field(default_factory=set)

    def mistake(self, hook: Callable[..., Any], failure: Failure, error: Exception, sample: Any) -> Exception | None:
        """Add a failure; return the error that ends the run if the first samples have failed alike by a mistake."""
        self.held.setdefault(cause_of(error), "")
        self._keys.add(failure.keys)
        if len(self.held) > 1 or len(self._keys) < _ALIKE or () in self._keys:
            return None
        line = _user_line(error, hook)
        return None if line is None else _error(failure, error, sample, line)


def _user_line(error: Exception, hook: Callable[..., Any]) -> str | None:
    """Return the line of the user's code that raised an error, ``file:line``; None if it may be due to the data."""
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__) if _module(frame) not in _OF_SAMPLES]
    if not frames or not isinstance(error, _KINDS) or isinstance(error, EnergonError):
        return None
    frame, line = frames[-1]
    code = frame.f_code
    if _module(frame) in _CALLERS:  # the hook does not accept its argument
        code = getattr(inspect.unwrap(getattr(hook, "__func__", hook)), "__code__", code)
        line = code.co_firstlineno
    return f"{code.co_filename}:{line}" if _is_users(code.co_filename) else None


def _module(frame: FrameType) -> str:
    return canonical_name(str(frame.f_globals.get("__name__")))


@lru_cache(maxsize=1)
def _libraries() -> tuple[str, ...]:
    return (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen")


def _is_users(file: str) -> bool:
    return not {"site-packages", "dist-packages"} & {*Path(file).parts} and not file.startswith(_libraries())


def _error(failure: Failure, error: Exception, sample: Any, line: str) -> RepeatedSampleError:
    from ...samples.sample_format import shown_fields  # imports torch

    is_list = isinstance(sample, list) and sample
    first = sample[0] if is_list else sample
    calls = "samples" if len(failure.keys) == 1 else "calls"
    return RepeatedSampleError(
        f"{failure.hook} fails for each of its first {_ALIKE} {calls} in the same way: {one_line(error)}"
        + _guess(error, first),
        key=", ".join(failure.keys[:1]),
        at=f"{line}, in {failure.hook}, for {failure.sample}",
        hint=f"the argument is {f'a list of {len(sample)}, which begins with ' if is_list else ''}"
        f"{shown_fields(first)}; if so many samples may fail, raise SkipSample for them, or pass "
        f"@stateless(failure_tolerance=0){failure.key_hint}",
    )


def _guess(error: Exception, sample: Any) -> str:
    if isinstance(error, AttributeError) and error.name:
        with suppress(Exception):  # an object may define dir()
            return nearest_hint(error.name, [name for name in dir(error.obj) if not name.startswith("_")])
    if isinstance(error, KeyError) and isinstance(sample, Mapping):
        dicts = [sample, *(value for value in sample.values() if isinstance(value, Mapping))]
        return nearest_hint(str(error.args[0]), [key for each in dicts for key in each if isinstance(key, str)])
    if isinstance(error, TypeError) and f"'{type(sample).__name__}' object is not subscriptable" in str(error):
        names = [name for name in getattr(sample, "__dataclass_fields__", ()) if not name.startswith("__")]
        return (
            f"; its fields are attributes, such as sample.{names[0]}, and energon prepare --sample-type CrudeWebdataset"
            " makes samples that are dicts of parts"
            if names
            else ""
        )
    return ""


_log = get_logger("loader.pipeline.error_handlers")  # documented: logging configurations use this name

SampleErrorHandler = Callable[[Exception, Any, Any], None]
"""Called with the error, the sample (or list of samples) that failed, and its sources, None if not known."""

Cause = tuple[type, str | None, int]
"""The type of an error, and the file and line that raised it."""

_MAX_TEXT = 300
"""Characters of an error's text in a line of the log."""

_SHOWN = 5
"""The lines of the log about one cause in a process, before its failures are counted only."""

_SHOWN_EVERY = 100
"""The number of failures for each later line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed call: the name of the hook, and the keys and places of its samples, empty if they have none.

    While no sample has passed the hook, ``held`` takes the lines of the log that later failures of a cause would have.
    """

    hook: str
    lane: int | None
    keys: tuple[str, ...]
    places: tuple[str, ...]
    held: dict[Cause, str] | None = None

    @property
    def sample(self) -> str:
        if not self.keys:
            return "a sample without a key"
        return f"sample {self.keys[0]!r}" if len(self.keys) == 1 else f"samples {joined_names(self.keys)}"

    @property
    def place(self) -> str | None:
        """The sample's places as text; None if not known."""
        return joined_names(tuple(dict.fromkeys(self.places))) or None

    @property
    def key_hint(self) -> str:
        """The advice for a hook that fails in all samples, if their keys name shards; empty if they do not."""
        if not self.keys or not all(".tar/" in key for key in self.keys):
            return ""
        return (
            '; keys name the shard here: if the hook expects bare keys, set ENERGON_KEY_FORMAT=key, or key_format="key"'
        )

    def note_on(self, error: BaseException) -> None:
        note = f"raised by {self.hook} for {self.sample}" + (f"\n  at: {self.place}" if self.places else "")
        note = escape_controls(note, keep="\n")
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    def text_of(self, error: BaseException) -> str:
        """Return the sample and an error as one line of bounded length, with the error's own hint."""
        text = one_line(error)
        sample = "" if all(key in text for key in self.keys[:1]) and self.keys else f"{self.sample}: "
        hint = f"; {_shortened(error.hint)}" if isinstance(error, EnergonError) and error.hint else ""
        return f"{sample}{text}{hint}"

    def stop(self, message: str, error: BaseException, *, hint: str, cause: str | None = None) -> RepeatedSampleError:
        """Create the error that ends the run after repeated failures."""
        return RepeatedSampleError(
            f"{message}, the last time for {self.sample}: {one_line(error)}",
            key=joined_names(self.keys) or None,
            source=self.place,
            hint=hint,
            cause=cause,
        )


_reported: ContextVar[Failure | None] = ContextVar("_reported", default=None)
"""The failure that a handler is called for. Its three arguments contain neither hook nor lane, which
:func:`log_exception` needs; handlers of users may call it."""


def report_to(handler: SampleErrorHandler, failure: Failure, error: Exception, sample: Any, sources: Any) -> None:
    """Call a handler, with hook and lane available to :func:`log_exception` and :func:`reraise_exception`."""
    token = _reported.set(failure)
    try:
        handler(error, sample, sources)
    finally:
        _reported.reset(token)


def log_exception(e: Exception, sample: Any, sources: Any = None) -> None:
    """Log a warning of one line that names the failed sample, which is then skipped.

    The first failure of each cause (the error's type, and the line of code that raised it) is logged with the
    traceback, four later ones with their number so far in this process, and then each hundredth. While no sample has
    passed the hook, all later ones but each hundredth are counted only; one line has their number when a sample passes.

    Args:
        e: The error.
        sample: The hook's argument.
        sources: The files that the sample is from; by default its ``__sources__``.
    """
    # Failures are counted by cause: only the first one of a cause is logged with its traceback.
    failure = _failure(sample, sources)
    cause = cause_of(e)
    _times[cause] += 1
    count = _times[cause]
    # Build one line: what was skipped and why, at which line of code, and where in the run.
    parts = [
        f"skipped {failure.sample}: {failure.hook} raised {one_line(e)}",
        *([] if cause[1] is None else [f"at {cause[1]}:{cause[2]}"]),
    ]
    parts += [] if failure.place is None else [f"in {failure.place}"]
    parts += [] if failure.lane is None else [f"lane {failure.lane}"]
    parts += [] if (worker := worker_number()) is None else [f"worker {worker}"]
    parts += [] if count == 1 else [f"{count} times so far"]
    text = escape_controls(" · ".join(parts))
    # After some lines, or before the hook has succeeded once, one in so many repetitions of a cause is logged.
    held = {} if failure.held is None else failure.held
    if count % _SHOWN_EVERY and (count > _SHOWN or cause in held):
        held[cause] = text
        return
    held[cause] = ""
    _log.warning("%s", text, exc_info=e if count == 1 else None)


def log_held(held: dict[Cause, str]) -> None:
    """Log the last failure of each cause that was held back, with its number."""
    for text in filter(None, held.values()):
        _log.warning("%s", text)


def cause_of(error: BaseException) -> Cause:
    """Return an error's type, and the file and line of the innermost frame."""
    traceback = error.__traceback__
    if traceback is None:
        return type(error), None, 0
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return type(error), traceback.tb_frame.f_code.co_filename, traceback.tb_lineno


@renamed_parameters(_sample="sample", _sources="sources")
def reraise_exception(e: Exception, sample: Any, sources: Any = None) -> None:
    """Raise the error again, with a note that names the sample.

    Args:
        e: The error.
        sample: The hook's argument.
        sources: The files that the sample is from; by default its ``__sources__``.

    Raises:
        Exception: ``e``.
        SampleError: ``e`` is a ``StopIteration``, which would end the iteration silently.
    """
    failure = _failure(sample, sources)
    if isinstance(e, StopIteration):
        raise failure.stop(
            f"{failure.hook} raised StopIteration", e, hint="pass a default to next(), or catch it in the hook"
        ) from e
    failure.note_on(e)
    raise e


def one_line(error: BaseException) -> str:
    r"""Return an error's type and text as one line of bounded length.

    >>> one_line(ValueError("not a number:\n  x"))
    'ValueError: not a number: x'
    """
    return _shortened(error_text(error))


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


_times: Counter[Cause] = Counter()
"""Warnings of each cause so far; counted per process, because the log is the process's, too."""


def _failure(sample: Any, sources: Any) -> Failure:
    reported = _reported.get()
    if reported is not None:
        return reported
    return Failure(hook="a hook", lane=None, keys=keys_of_sample(sample), places=places_of_sample(sample, sources))
