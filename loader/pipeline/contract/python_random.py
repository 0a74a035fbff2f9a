"""Where Python's own random generator stands, kept and put back.

``random.getstate`` makes 625 integers of the generator's memory, which takes longer than making a small sample. So the
memory itself is copied, where a trial shows that it is all there is to a generator's state.
"""

from __future__ import annotations

import _random
import ctypes
import random
import sys
from typing import Any

__all__ = ["generator_state", "set_generator_state"]

_HEAD = object.__basicsize__
_SIZE = _random.Random.__basicsize__ - _HEAD  # bytes: 624 words, and which of them is next
_EXPECTED = 624 * 4


_GLOBAL: Any = random._inst  # noqa: SLF001 - random.random() and the like are methods of it


def generator_state(generator: Any = _GLOBAL) -> Any:
    """Give where a generator stands: that of ``random.random()`` and the like, unless another one is named."""
    if not _IS_COPIED:
        return generator.getstate()
    memory = _MEMORY if generator is _GLOBAL else _memory_of(generator)
    return memory.tobytes(), generator.gauss_next


def set_generator_state(state: Any, generator: Any = _GLOBAL) -> None:
    """Have a generator go on where :func:`generator_state` said that it stood."""
    if not _IS_COPIED:
        generator.setstate(state)
        return
    memory = _MEMORY if generator is _GLOBAL else _memory_of(generator)
    memory[:], generator.gauss_next = state


def _memory_of(generator: Any) -> memoryview:
    """Look into a generator's memory, while it lives."""
    return memoryview((ctypes.c_ubyte * _SIZE).from_address(id(generator) + _HEAD)).cast("B")


def _can_be_copied() -> bool:
    """Try, with a generator of our own, whether copying its memory does what ``getstate`` and ``setstate`` do."""
    if sys.implementation.name != "cpython" or not _EXPECTED < _SIZE < _EXPECTED + 64:
        return False
    generator = random.Random(1)
    generator.gauss(0, 1)
    before, state = generator.getstate(), generator_state(generator)
    generator.gauss(0, 1)
    generator.seed(2)
    set_generator_state(state, generator)
    return generator.getstate() == before


_MEMORY = _memory_of(_GLOBAL)
_IS_COPIED = True  # as the trial has it
_IS_COPIED = _can_be_copied()
