"""Random generators of hooks, as ``TaskEncoder.rng`` returns them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ..cached_property import cached_property
from ..errors import EnergonError
from ..order import extend_integer

if TYPE_CHECKING:
    from torch import Generator

_RNG = 32  # separates these seeds from those of the global generators


class HookRng:
    """Random generators for hooks, independent of the global ones; each is created on first access.

    Args:
        parts: Integers that determine the random numbers.

    >>> HookRng(0, 1).random.random() == HookRng(0, 1).random.random()
    True
    """

    def __init__(self, *parts: int) -> None:
        self._word = extend_integer(0, _RNG, *parts)

    @cached_property
    def torch(self) -> Generator:
        """Generator of torch on the CPU."""
        from torch import Generator

        return Generator().manual_seed(self._word)

    @cached_property
    def torch_cuda(self) -> Generator:
        """Generator of torch on the current CUDA device.

        Raises:
            EnergonError: There is no CUDA device.
        """
        from torch import Generator, cuda

        if not cuda.is_available():
            raise EnergonError("rng.torch_cuda needs a CUDA device, and there is none", hint="use rng.torch")
        return Generator(device="cuda").manual_seed(self._word)

    @cached_property
    def numpy(self) -> np.random.Generator:
        """Generator of numpy."""
        return np.random.default_rng(self._word)

    @cached_property
    def random(self) -> Random:
        """Generator of Python's ``random``."""
        return Random(self._word)
