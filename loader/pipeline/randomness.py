"""The random generators that user code draws from: Python's, numpy's and torch's on the CPU.

They are seeded before each micro-batch from what names it, so that results depend neither on the process that makes a
batch nor on what ran before; and put back where code runs out of turn.
"""

# ruff: noqa: NPY002 - numpy's global generator is what user code draws from

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ..order import mix
from .ref import Ref, integers_of

__all__ = ["kept_generators", "seed_batch", "seed_sample"]

_numpy: Any = np.random  # whose stubs lack what changes the global generator

_BATCH, _SAMPLE = 30, 31  # what a random number is for; part of its name


def seed_batch(seed: int, lane: int, number: int) -> None:
    """Seed the generators for a lane's ``number``-th micro-batch."""
    _seed(int(mix(seed, _BATCH, lane, number)))


def seed_sample(seed: int, lane: int, ref: Ref) -> None:
    """Seed the generators for one item of a lane."""
    _seed(int(mix(seed, _SAMPLE, lane, *integers_of(ref))))


@contextmanager
def kept_generators(*, numpys_second: bool = True) -> Iterator[None]:
    """Put the generators back on leaving to where they were on entering.

    Args:
        numpys_second: Also the normally distributed number that numpy has in hand, since it makes two at a time.
            Looking for it costs as much as all the rest; it may be lost where every run loses it at the same place.
    """
    python, torchs = random.getstate(), torch.default_generator.get_state()
    in_hand = _numpy.get_state(legacy=False) if numpys_second else None
    # numpy's is not copied but changed for another one, which costs a hundredth of it.
    numpys = _numpy.get_bit_generator()
    _numpy.set_bit_generator(_spare.pop() if _spare else np.random.MT19937(0))
    try:
        yield
    finally:
        random.setstate(python)
        torch.default_generator.set_state(torchs)
        _spare.append(_numpy.get_bit_generator())
        _numpy.set_bit_generator(numpys)
        if in_hand is not None and in_hand["has_gauss"]:
            _numpy.set_state(in_hand)


_spare: list[np.random.BitGenerator] = []  # those that are not in use: each is seeded before it is


def _seed(word: int) -> None:
    random.seed(word)
    np.random.seed(word & 0xFFFFFFFF)
    torch.default_generator.manual_seed(word)  # torch.manual_seed costs a hundred times as much: it seeds every device
