"""Find a mistake in a hook: before any sample has passed, different ones fail alike at one line of the user's code."""

from __future__ import annotations

import inspect
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

from ...errors import EnergonError, RepeatedSampleError
from ...format.documents.messages import nearest_hint
from ...samples.sample_dataclass import fields_of
from .error_handlers import Cause, Failure, cause_of, one_line

_ALIKE = 10
"""Different samples that must fail alike. Another error among them, or one sample that passes, shows that data differ.
"""

_KINDS = (AttributeError, KeyError, TypeError)
"""Errors of misspelt names, wrong types and wrong arguments; ``NameError`` and ``ImportError`` end a run at once."""

_OF_SAMPLES = ("loader.samples.types", "loader.samples.sample_dataclass")  # what the user's line calls by ``sample[…]``
_CALLERS = ("loader.pipeline.contract.hook", "loader.pipeline.measuring.recorder")  # they call a hook
_MAX_NAMES = 20


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
    if not isinstance(error, _KINDS) or isinstance(error, EnergonError):
        return None
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__) if _module(frame) not in _OF_SAMPLES]
    if not frames:
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
    package = str(Path(__file__).parents[2])
    return (package, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")), "<frozen")


def _is_users(file: str) -> bool:
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not installed and not file.startswith(_libraries())


def _error(failure: Failure, error: Exception, sample: Any, line: str) -> RepeatedSampleError:
    """Build the error that names the line, the sample, what it has, and the name that was probably meant."""
    calls = "samples" if len(failure.keys) == 1 else "calls"
    return RepeatedSampleError(
        f"{failure.hook} fails for each of its first {_ALIKE} {calls} in the same way: {one_line(error)}"
        + _guess(error, sample),
        key=", ".join(failure.keys[:1]),
        at=f"{line}, in {failure.hook}, for {failure.sample}",
        hint=f"{_description(sample)}; if so many samples may fail, raise SkipSample for them, or pass "
        "@stateless(failure_tolerance=0)",
    )


def _description(sample: Any, which: str = "this") -> str:
    if isinstance(sample, list | tuple) and sample:
        return f"the argument is a list of {len(sample)}; {_description(sample[0], 'its first')}"
    from ...samples.sample_format import format_sample_compact  # imports torch

    shown = [
        f"{name} ({format_sample_compact(value, 1, 3, 30)})"
        for name, value in fields_of(sample).items()
        if name == "__key__" or not str(name).startswith("__")
    ]
    listed = ", ".join(shown[:_MAX_NAMES]) + (", …" if len(shown) > _MAX_NAMES else "")
    what = "keys" if isinstance(sample, Mapping) else "attributes"
    kind = f"{which} {type(sample).__name__}"
    return f"{kind} has the {what} {listed}" if shown else f"{kind} has no fields"


def _guess(error: Exception, sample: Any) -> str:
    """Return which name was probably meant."""
    if isinstance(error, AttributeError) and error.name:
        with suppress(Exception):  # an object may define dir()
            return nearest_hint(error.name, [name for name in dir(error.obj) if not name.startswith("_")])
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        return nearest_hint(error.args[0], _keys_within(sample))
    return ""


def _keys_within(value: Any) -> Iterator[str]:
    """Yield the keys of a dict and of the dicts in it, and those of the samples in a list."""
    if isinstance(value, Mapping):
        yield from (key for key in value if isinstance(key, str))
        value = list(value.values())
    if isinstance(value, list | tuple):
        for inner in value[:_MAX_NAMES]:
            yield from _keys_within(inner)
