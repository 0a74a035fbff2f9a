"""Save and restore Python's global random generator, from which the functions of :mod:`random` draw.

``random.getstate`` returns 625 integers and takes 11 µs. In CPython the generator is a struct that ends with these
integers: an index and 624 words of 32 bits. A copy of them takes 0.5 µs.
"""

from __future__ import annotations

import ctypes
import random
import sys
from functools import cache
from typing import Any

__all__ = ["python_state", "restore_python_state"]

_STATE_BYTES = 4 * (1 + 624)
_getstate: Any = random.getstate
_generator: Any = getattr(_getstate, "__self__", None)


def python_state() -> Any:
    """Return the state of the generator, for :func:`restore_python_state`."""
    memory = _global_memory() if random.getstate is _getstate else None  # a program may use another generator
    return random.getstate() if memory is None else (memory.raw, _generator.gauss_next)


def restore_python_state(state: Any) -> None:
    """Set the generator to a state that :func:`python_state` returned in this process."""
    if type(state[0]) is not bytes:
        random.setstate(state)
    else:
        _global_memory().raw, _generator.gauss_next = state


@cache
def _global_memory() -> Any:
    """Return the memory of the generator's state; None if this Python, or a subclass, stores it in another way."""
    return _memory_of(_generator) if type(_generator) is random.Random and _is_known_layout() else None


def _memory_of(generator: random.Random) -> Any:
    """Return the memory of a generator's state; it is valid as long as the generator."""
    return (ctypes.c_char * _STATE_BYTES).from_address(id(generator) + object.__basicsize__)


def _is_known_layout() -> bool:
    """Return True if a copy of its memory, and nothing else, makes one generator equal to another."""
    if sys.implementation.name != "cpython":
        return False
    struct: Any = random.Random.__base__
    if struct.__basicsize__ < object.__basicsize__ + _STATE_BYTES:
        return False
    one, other = random.Random(1), random.Random(2)
    one.random()
    copied = _memory_of(one).raw
    _memory_of(other).raw = copied
    if other.getstate() != one.getstate():
        return False
    one.setstate(random.Random(3).getstate())
    return _memory_of(one).raw != copied and other.random() != one.random()
