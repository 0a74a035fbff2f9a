"""Find a mistake in a hook: before any sample has passed, different ones fail alike at one line of the user's code."""

from __future__ import annotations

import inspect
import sysconfig
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

from ...errors import EnergonError, RepeatedSampleError
from ...format.documents.messages import nearest_hint
from .error_handlers import Cause, Failure, cause_of, one_line

_ALIKE = 10
"""Different samples that must fail alike. Another error among them, or one sample that passes, shows that data differ.
"""

_KINDS = (AttributeError, KeyError, TypeError)
"""Errors of misspelt names, wrong types and wrong arguments; ``NameError`` and ``ImportError`` end a run at once."""

_OF_SAMPLES = ("loader.samples.types", "loader.samples.sample_dataclass")  # what the user's line calls by ``sample[…]``
_CALLERS = ("loader.pipeline.contract.hook", "loader.pipeline.measuring.recorder")  # they call a hook


@dataclass(slots=True)
class FirstFailures:
    """The failures of a hook in a lane until a sample passes it.

    Attributes:
        held: The lines of the log that are held back, by cause; empty if the cause was logged.
    """

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


def _module(frame: FrameType) -> Any:
    return frame.f_globals.get("__name__")


@lru_cache(maxsize=1)
def _libraries() -> tuple[str, ...]:
    return (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen")


def _is_users(file: str) -> bool:
    return not {"site-packages", "dist-packages"} & {*Path(file).parts} and not file.startswith(_libraries())


def _error(failure: Failure, error: Exception, sample: Any, line: str) -> RepeatedSampleError:
    """Build the error that names the line, the sample, what it has, and the name that was probably meant."""
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
    """Return which name was probably meant: an attribute of the object, or a key of the sample or of a dict in it."""
    if isinstance(error, AttributeError) and error.name:
        with suppress(Exception):  # an object may define dir()
            return nearest_hint(error.name, [name for name in dir(error.obj) if not name.startswith("_")])
    if isinstance(error, KeyError) and isinstance(sample, Mapping):
        dicts = [sample, *(value for value in sample.values() if isinstance(value, Mapping))]
        return nearest_hint(str(error.args[0]), [key for each in dicts for key in each if isinstance(key, str)])
    return ""
