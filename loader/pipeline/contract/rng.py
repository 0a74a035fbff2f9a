"""The random generators that user code draws from: Python's, numpy's and torch's on the CPU.

They are seeded before each micro-batch from what names it, so that results depend neither on the process that makes a
batch nor on what ran before; and put back where code runs out of turn.
"""

# ruff: noqa: NPY002 - numpy's global generator is what user code draws from

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from ...order import extend_integer
from .item import ItemId, integers_of
from .python_random import generator_state, set_generator_state

__all__ = ["preserve_rng_state", "seed_batch", "seed_sample"]

_numpy: Any = np.random  # whose stubs lack what changes the global generator

_BATCH, _SAMPLE = 30, 31  # what a random number is for; part of its name


def seed_batch(seed: int, lane: int, number: int) -> None:
    """Seed the generators for a lane's ``number``-th micro-batch."""
    _seed(extend_integer(_prefix(int(seed), _BATCH, int(lane)), int(number)))


def seed_sample(seed: int, lane: int, item_id: ItemId) -> None:
    """Seed the generators for one item of a lane."""
    _seed(extend_integer(_prefix(int(seed), _SAMPLE, int(lane)), *map(int, integers_of(item_id))))


@lru_cache(maxsize=1024)
def _prefix(*names: int) -> int:
    return extend_integer(0, *names)


class preserve_rng_state:  # noqa: N801 - used as contextlib's own are; a generator for one takes several times as long
    """Put the generators back on leaving to where they were on entering.

    Args:
        numpys_second: Also the normally distributed number that numpy has in hand, since it makes two at a time. It
            may be lost where every run loses it at the same place.
    """

    __slots__ = ("_in_hand", "_numpys", "_numpys_second", "_python", "_torchs")

    def __init__(self, *, numpys_second: bool = True) -> None:
        self._numpys_second = numpys_second

    def __enter__(self) -> None:
        self._python, self._torchs = generator_state(), torch.default_generator.get_state()
        self._in_hand = _numpy.get_state(legacy=False) if self._numpys_second and _has_second() else None
        # numpy's is not copied but changed for another one, which costs a hundredth of it.
        self._numpys = _numpy.get_bit_generator()
        _numpy.set_bit_generator(_spare.pop() if _spare else np.random.MT19937(0))

    def __exit__(self, *error: object) -> None:
        set_generator_state(self._python)
        torch.default_generator.set_state(self._torchs)
        _spare.append(_numpy.get_bit_generator())
        _numpy.set_bit_generator(self._numpys)
        if self._in_hand is not None:
            _numpy.set_state(self._in_hand)


class _NoState:
    """Stands for numpy's bit generator, whose state takes ten times as long to copy as all else here."""

    @property
    def state(self) -> dict[str, Any]:
        return {"bit_generator": "none"}


_no_state = _NoState()


def _has_second() -> bool:
    """Tell whether numpy has a second normally distributed number in hand."""
    generator = _numpy.mtrand._rand  # noqa: SLF001 - what numpy's own functions are methods of
    own = generator._bit_generator  # noqa: SLF001
    generator._bit_generator = _no_state  # noqa: SLF001
    try:
        return bool(generator.get_state(legacy=False)["has_gauss"])
    finally:
        generator._bit_generator = own  # noqa: SLF001


_spare: list[np.random.BitGenerator] = []  # those that are not in use: each is seeded before it is


def _seed(word: int) -> None:
    random.seed(word)
    np.random.seed(word & 0xFFFFFFFF)
    torch.default_generator.manual_seed(word)  # torch.manual_seed costs a hundred times as much: it seeds every device
