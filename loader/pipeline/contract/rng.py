"""Seed, save and restore the random generators of Python, numpy and torch (CPU) that hooks draw from.

Before each micro-batch they are seeded from the seed of the run, the lane and the number of the micro-batch. Results
therefore depend neither on the worker nor on earlier draws. :class:`preserve_rng_state` wraps code that must not change
the random numbers of its caller.

All threads of a process share these generators. In a worker that is a thread, neither changes them.
"""

# ruff: noqa: NPY002, SLF001 - numpy's global generator is what user code draws from

from __future__ import annotations

import random
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...lazy_torch import torch
from ...order import extend_integer
from ..worker_identity import is_worker_thread
from .item_id import ItemId, integers_of

_numpy: Any = np.random  # its stubs lack get_bit_generator and set_bit_generator

_BATCH, _SAMPLE = 30, 31  # separate the seeds of micro-batches from those of samples


def seed_batch(seed: int, lane: int, batch: int) -> None:
    """Seed the generators for the ``batch``-th micro-batch of a lane."""
    _seed(extend_integer(_prefix(int(seed), _BATCH, int(lane)), int(batch)))


def seed_sample(seed: int, lane: int, item_id: ItemId) -> None:
    """Seed the generators for one item of a lane."""
    _seed(extend_integer(_prefix(int(seed), _SAMPLE, int(lane)), *map(int, integers_of(item_id))))


@lru_cache(maxsize=1024)
def _prefix(*parts: int) -> int:
    return extend_integer(0, *parts)


class preserve_rng_state:  # noqa: N801 - a context manager; a class takes a fraction of @contextmanager's time
    """Context manager that restores the generators on exit.

    Inside, numpy draws from another bit generator: exchanging it takes a hundredth of the time of copying its state.
    Seed the generators before drawing from them. An object that is used again copies Python's state only if it changed.

    Args:
        numpy_gauss: Also restore the second normally distributed number that numpy caches, since it draws two at a
            time. Pass False where every run drops the cached number at the same place.
    """

    __slots__ = ("_numpy_gauss", "_numpy_generator", "_numpy_state", "_python_state", "_torch_state", "_unchanged")

    def __init__(self, *, numpy_gauss: bool = True) -> None:
        self._numpy_gauss = numpy_gauss
        self._python_state: Any = None  # the last one

    def __enter__(self) -> None:
        self._unchanged = is_worker_thread()  # other threads draw from the generators at the same time
        if self._unchanged:
            return
        self._python_state = _take_python_state(self._python_state)
        self._torch_state = torch.default_generator.get_state()
        self._numpy_state = _cached_normal() if self._numpy_gauss else {}
        # Numpy's bit generator is exchanged for a spare one, which is faster than a copy of its state.
        self._numpy_generator = _numpy.get_bit_generator()
        try:
            spare = _spare_generators.pop()
        except IndexError:  # none, or another thread was faster
            spare = np.random.MT19937(0)
        _numpy.set_bit_generator(spare)

    def __exit__(self, *error: object) -> None:
        if self._unchanged:
            return
        random.setstate(self._python_state.state)
        torch.default_generator.set_state(self._torch_state)
        _spare_generators.append(_numpy.get_bit_generator())
        _numpy.set_bit_generator(self._numpy_generator)  # drops the cached normal number
        if self._numpy_state.get("has_gauss"):
            _restore_cached_normal(self._numpy_state)


class _PythonState(NamedTuple):
    """A state of Python's generator, and what it draws next: 32 bits, and the 64 bits after them."""

    state: tuple[Any, ...]
    first: int
    rest: int


_python: Any = random.getstate.__self__  # type: ignore[attr-defined] # the functions are methods of an object
_STATE_VERSION = 3  # of the form (version, (624 words, index of the next word), cached normal number)


def _take_python_state(known: _PythonState | None) -> _PythonState:
    """Return the state of Python's generator, and move the generator on.

    A copy is 625 integers, which take 7 µs and the place of other data in the processor's cache. Few training loops
    draw from this generator, so it mostly still has the state that was restored last, as its next 96 bits show.
    """
    if known is None or _python.VERSION != _STATE_VERSION:
        return _PythonState(random.getstate(), _python.getrandbits(32), _python.getrandbits(64))
    first, rest = _python.getrandbits(32), None
    if first == known.first and _python.gauss_next == known.state[2]:
        rest = _python.getrandbits(64)
        if rest == known.rest:
            return known
    state = _before(random.getstate(), words=1 if rest is None else 3)
    return _PythonState(state, first, _python.getrandbits(64) if rest is None else rest)


def _before(state: tuple[Any, ...], words: int) -> tuple[Any, ...]:
    """Return the state before a generator drew some words.

    If the generator made a new block for the first of them, this is the beginning of that block. (If it made one for a
    later word, those before are lost. So three words are drawn only if the first is the expected one.)
    """
    version, numbers, cached = state
    return version, (*numbers[:-1], max(0, numbers[-1] - words)), cached


class _NoState:
    """A bit generator whose state is empty. numpy's copies 624 words one by one, which takes 40 µs.

    Args:
        bit_generator: The bit generator that it takes the place of; it serves all else.
    """

    def __init__(self, bit_generator: Any) -> None:
        self._bit_generator = bit_generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bit_generator, name)

    @property
    def state(self) -> dict[str, Any]:
        return {"bit_generator": "MT19937", "state": {}}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        """Keep the generator as it is."""


def _get_cached(generator: Any) -> dict[str, Any]:
    """Return the state of a generator without its bit generator's state: the cached number."""
    bit_generator = generator._bit_generator
    generator._bit_generator = _NoState(bit_generator)
    try:
        return dict(generator.get_state(legacy=False))
    finally:
        generator._bit_generator = bit_generator


def _set_cached(generator: Any, state: dict[str, Any]) -> None:
    bit_generator = generator._bit_generator
    generator._bit_generator = _NoState(bit_generator)
    try:
        generator.set_state(state)
    finally:
        generator._bit_generator = bit_generator


@cache
def _is_separable() -> bool:
    """Return True if this numpy keeps the cached number apart from the bit generator, as versions up to 2.4 do."""
    generator = np.random.RandomState(0)
    first = generator.normal()
    try:
        # Copy the cached number to another generator: both must draw the same from there on.
        state = _get_cached(generator)
        second, third = generator.normal(), generator.normal()
        again = np.random.RandomState(0)
        again.normal()
        again.normal()
        _set_cached(again, state)
        restored = again.normal(), again.normal()
    except (AttributeError, TypeError, ValueError):
        return False
    return bool(state.get("has_gauss")) and first != second and (second, third) == restored


def _cached_normal() -> dict[str, Any]:
    if not _is_separable():
        return dict(_numpy.get_state(legacy=False))
    return _get_cached(_numpy.mtrand._rand)


def _restore_cached_normal(state: dict[str, Any]) -> None:
    if _is_separable():
        _set_cached(_numpy.mtrand._rand, state)
    else:
        _numpy.set_state(state)


_spare_generators: list[np.random.BitGenerator] = []


def _seed(word: int) -> None:
    if is_worker_thread():
        return  # the generators belong to all threads of the process
    random.seed(word)
    np.random.seed(word & 0xFFFFFFFF)
    torch.default_generator.manual_seed(word)  # torch.manual_seed seeds every device, at a hundred times the cost
