"""Memory for the tensors of batches: ordinary memory, or memory of earlier batches that are gone.

The system clears and maps each new page when it is first written, which costs more than the write. Batches are large,
similar in size and short-lived, so a loader reuses the memory of earlier ones. That has their values: the caller writes
all of it.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..lazy_torch import torch
from ..storage import map_memory
from .hooks import running_hook_context

MIN_BYTES = 1 << 16
"""Smaller tensors use ordinary memory, which is as fast for them."""


def place(shape: Sequence[int], *, like: torch.Tensor) -> torch.Tensor | None:
    """Allocate a tensor for part of a batch, with undefined values; None if ordinary memory is right for it.

    Args:
        shape: Its shape.

    >>> from loader.samples.hooks import HookContext, set_hook_context
    >>> context = HookContext()
    >>> context.memory = ReusedMemory()
    >>> set_hook_context(context)
    >>> place((64, 1024), like=torch.zeros(1)).shape, place((64,), like=torch.zeros(1))
    (torch.Size([64, 1024]), None)
    >>> set_hook_context(None)
    """
    context = running_hook_context()
    if context is None or context.memory is None or not like.is_cpu or prod(shape) * like.element_size() < MIN_BYTES:
        return None
    contents = context.memory.array((prod(shape) * like.element_size(),), np.uint8)
    return torch.from_numpy(contents).view(like.dtype).view(*shape)


def new_array(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Allocate an array with undefined values, in reused memory if the running hook has any.

    For values that are filled as an array and become a tensor at the end: a call of torch costs ten times as much as
    one of numpy when other code runs in between.
    """
    context = running_hook_context()
    if context is None or context.memory is None or prod(shape) * np.dtype(dtype).itemsize < MIN_BYTES:
        return np.empty(shape, dtype)
    array: npt.NDArray[Any] = context.memory.array(shape, dtype)
    return array


class ReusedMemory:
    """An allocator of arrays, with undefined values, in memory of earlier ones that are gone.

    A piece of memory is free when no object refers to it: neither the array, nor a view or a tensor of it.

    Args:
        max_free_bytes: The most free memory that is kept.

    >>> make = ReusedMemory().array
    >>> address = make((1024, 64), np.float32).ctypes.data  # the array is freed at once
    >>> make((1000, 64), np.float32).ctypes.data == address
    True
    """

    def __init__(self, max_free_bytes: int = 256 << 20) -> None:
        self._max_free_bytes = max_free_bytes
        self._free: dict[int, list[mmap.mmap]] = {}  # by size
        self._free_bytes = 0
        self._used: dict[int, tuple[weakref.ref[Any], mmap.mmap]] = {}

    def array(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        count = prod(shape)
        try:
            memory = self._take(_rounded_up(count * np.dtype(dtype).itemsize))
        except OSError:  # the system limits the number of mappings
            return np.empty(shape, dtype)
        contents = np.frombuffer(memory, dtype, count)
        gone = weakref.ref(contents, self._reclaim)  # weakref.finalize takes four times as long
        self._used[id(gone)] = gone, memory
        return contents.reshape(shape)

    def _take(self, size_bytes: int) -> mmap.mmap:
        free = self._free.get(size_bytes)
        if free:
            self._free_bytes -= size_bytes
            return free.pop()
        return map_memory(size_bytes)

    def _reclaim(self, gone: weakref.ref[Any]) -> None:
        _, memory = self._used.pop(id(gone))
        if self._free_bytes + len(memory) > self._max_free_bytes:
            self._free.clear()  # sizes have changed: drop all free pieces; those in use are kept later
            self._free_bytes = 0
        self._free.setdefault(len(memory), []).append(memory)
        self._free_bytes += len(memory)


def _rounded_up(size_bytes: int) -> int:
    """Round up to one of eight sizes between powers of two, so that a piece fits tensors of similar sizes."""
    step = max(mmap.PAGESIZE, 1 << max(0, size_bytes.bit_length() - 4))
    return -(-size_bytes // step) * step
