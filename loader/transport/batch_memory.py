"""Where the tensors of a batch are made: in ordinary memory, unless the process has a better place for them.

Memory that is new costs more than what is written to it, since the system clears and maps each page when it is first
touched. Batches are large, much alike, and soon gone: so a loader makes them in memory that it used for earlier ones.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["ReusedMemory", "new_array", "place", "set_batch_memory"]

LEAST_BYTES = 1 << 16
"""Smaller tensors are made in ordinary memory, which serves them as well."""


# One slot is enough: it is for the whole process.
_memory: list[ReusedMemory | None] = [None]


def set_batch_memory(memory: ReusedMemory | None) -> None:
    """Have this process make the tensors of batches in ``memory``; None is ordinary memory.

    >>> set_batch_memory(ReusedMemory())
    >>> place((64, 1024), like=torch.zeros(1)).shape, place((64,), like=torch.zeros(1))
    (torch.Size([64, 1024]), None)
    >>> set_batch_memory(None)
    """
    _memory[0] = memory


def place(shape: Sequence[int], *, like: Tensor) -> Tensor | None:
    """Make a tensor for part of a batch, with undefined values; None where ordinary memory is the place for it.

    Args:
        shape: Its shape.
        like: Its type and device.
    """
    memory = _memory[0]
    if memory is None or not like.is_cpu or prod(shape) * like.element_size() < LEAST_BYTES:
        return None
    return memory(shape, like.dtype)


def new_array(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Make an array with undefined values, in memory of earlier ones where this process has such memory.

    For what becomes a tensor only when it is done: torch's functions, between others, take ten times as long as
    numpy's to get started.
    """
    memory = _memory[0]
    if memory is None or prod(shape) * np.dtype(dtype).itemsize < LEAST_BYTES:
        return np.empty(shape, dtype)
    return memory.array(shape, dtype)


class ReusedMemory:
    """Makes tensors and arrays in memory of earlier ones that are gone; with undefined values.

    A piece of memory is free when nothing looks into it any more: neither the tensor, nor a view or an array of it.

    Args:
        most_free_bytes: How much is kept while it is free.

    >>> make = ReusedMemory()
    >>> address = make((1024, 64), torch.float32).data_ptr()  # nobody keeps the tensor
    >>> make((1000, 64), torch.float32).data_ptr() == address
    True
    """

    def __init__(self, most_free_bytes: int = 256 << 20) -> None:
        self._most_free_bytes = most_free_bytes
        self._free: dict[int, list[mmap.mmap]] = {}  # by size
        self._free_bytes = 0
        self._lent: dict[int, tuple[weakref.ref[Any], mmap.mmap]] = {}

    def __call__(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        contents = self.array((prod(shape) * dtype.itemsize,), np.uint8)
        return torch.from_numpy(contents).view(dtype).view(*shape)

    def array(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Make an array in the same way."""
        count = prod(shape)
        try:
            memory = self._taken(_piece_bytes(count * np.dtype(dtype).itemsize))
        except OSError:  # the system maps only so many pieces
            return np.empty(shape, dtype)
        contents = np.frombuffer(memory, dtype, count)
        gone = weakref.ref(contents, self._give_back)  # weakref.finalize takes four times as long
        self._lent[id(gone)] = gone, memory
        return contents.reshape(shape)

    def _taken(self, size_bytes: int) -> mmap.mmap:
        free = self._free.get(size_bytes)
        if free:
            self._free_bytes -= size_bytes
            return free.pop()
        memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a kernel without huge pages
                memory.madvise(mmap.MADV_HUGEPAGE)
        return memory

    def _give_back(self, gone: weakref.ref[Any]) -> None:
        _, memory = self._lent.pop(id(gone))
        if self._free_bytes + len(memory) > self._most_free_bytes:
            self._free.clear()  # sizes have changed; what is used goes on to be kept
            self._free_bytes = 0
        self._free.setdefault(len(memory), []).append(memory)
        self._free_bytes += len(memory)


def _piece_bytes(size_bytes: int) -> int:
    """Round up to one of eight sizes between powers of two, so that pieces fit tensors of about one size."""
    step = max(mmap.PAGESIZE, 1 << max(0, size_bytes.bit_length() - 4))
    return -(-size_bytes // step) * step
