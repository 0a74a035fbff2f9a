"""Messages between processes: all large tensors and arrays of a message in one piece of shared memory.

torch shares each tensor by itself, which costs a file, a mapping and a hand-shake between the processes for every one
of them, and it sends arrays through a pipe.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.storage import UntypedStorage

from .segments import SegmentFlags, SegmentPool, view_of_segment

__all__ = ["PackedMessage", "pack_message", "unpack_message"]

_LEAST_BYTES = 2048  # smaller contents travel in the pickle
_ALIGNMENT = 64  # bytes, as the allocators of torch and numpy align

PackedMessage = tuple[bytes, Any, list[tuple[int, int]]]
"""The pickle; the shared memory, a segment or a tensor of its own, or None; and the half-open ranges of it that the
pickle refers to, in order."""


def pack_message(message: Any, pool: SegmentPool | None = None) -> PackedMessage:
    """Pack what a worker sends; the contents of tensors and arrays are copied.

    Args:
        message: Anything that pickles.
        pool: Where to take the shared memory from; None, or one that is used up, makes a new piece.
    """
    stream = io.BytesIO()
    contents: list[memoryview] = []
    ranges: list[tuple[int, int]] = []

    def keeps(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LEAST_BYTES or raw.readonly:
            return True  # in the pickle
        start = -(-ranges[-1][1] // _ALIGNMENT) * _ALIGNMENT if ranges else 0
        ranges.append((start, start + raw.nbytes))
        contents.append(raw)
        return False

    _Pickler(stream, pickle.HIGHEST_PROTOCOL, True, keeps).dump(message)
    if not ranges:
        return stream.getvalue(), None, ranges
    shared: Any
    taken = pool.take(ranges[-1][1]) if pool is not None else None
    if taken is not None:
        shared, memory = taken[0], memoryview(taken[1])
    else:
        shared = _new_shared(ranges[-1][1])
        memory = memoryview(shared.numpy())
    for (start, stop), content in zip(ranges, contents, strict=True):
        memory[start:stop] = content
    memory.release()
    return stream.getvalue(), shared, ranges


def unpack_message(packed: PackedMessage, flags: SegmentFlags) -> Any:
    """Give what :func:`pack_message` was given; its tensors and arrays lie in the shared memory, and may be changed.

    Args:
        packed: What came from a worker.
        flags: Where it is noted that a segment is free again, once the message is gone.
    """
    data, shared, ranges = packed
    if shared is None:
        return pickle.loads(data)  # noqa: S301 - of our own worker process
    if isinstance(shared, torch.Tensor):
        memory = memoryview(shared.numpy().data)
    else:
        memory = view_of_segment(shared, ranges[-1][1], flags)
    return pickle.loads(data, buffers=_pieces(memory, ranges))  # noqa: S301 - likewise


def _pieces(memory: memoryview, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
    return [memory[start:stop] for start, stop in ranges]


def _new_shared(size_bytes: int) -> torch.Tensor:
    make: Any = torch.UntypedStorage._new_shared  # noqa: SLF001 - what torch's own collation calls
    storage = make(size_bytes)
    return torch.empty(0, dtype=torch.uint8).set_(storage)


class _Pickler(ForkingPickler):
    """Leaves the contents of tensors out of the pickle, as numpy does by itself for arrays.

    torch's own way would be to send a file of each, which it asks the worker for when the pickle is read; a message may
    be read when its worker has ended.
    """

    def reducer_override(self, value: Any) -> Any:
        if type(value) is torch.Tensor:
            return _reduced_tensor(value)
        if type(value) is UntypedStorage and value.device.type == "cpu" and value.nbytes():
            return _storage, (_contents(torch.empty(0, dtype=torch.uint8).set_(value)),)
        return NotImplemented


def _reduced_tensor(value: torch.Tensor) -> Any:
    """Say how to make a tensor again; torch itself does for unusual ones, and hands on their storages."""
    if value.device.type != "cpu" or value.layout is not torch.strided or value.requires_grad or not value.numel():
        return NotImplemented
    if value.is_quantized:
        by_itself: Any = value.__reduce_ex__
        return by_itself(pickle.HIGHEST_PROTOCOL)
    value = value.resolve_conj().resolve_neg()  # which are notes on a tensor, beside its contents
    if value.is_contiguous():
        return _tensor, (_contents(value), value.dtype, tuple(value.shape))
    # The elements in the order in which they lie in memory, without what lies between them.
    order = sorted(range(value.dim()), key=value.stride, reverse=True)
    dense = value.permute(order).contiguous()
    places = tuple(map(order.index, range(value.dim())))
    return _permuted_tensor, (_contents(dense), value.dtype, tuple(dense.shape), places)


def _contents(value: torch.Tensor) -> pickle.PickleBuffer:
    # A contiguous tensor of one element may have any stride, with which it would not be viewed as bytes.
    flat = value.as_strided((value.numel(),), (1,))
    return pickle.PickleBuffer(flat.view(torch.uint8).numpy().data)


def _tensor(contents: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.frombuffer(contents, dtype=dtype).reshape(shape)


def _permuted_tensor(
    contents: Any, dtype: torch.dtype, shape: tuple[int, ...], places: tuple[int, ...]
) -> torch.Tensor:
    return _tensor(contents, dtype, shape).permute(places)


def _storage(contents: Any) -> UntypedStorage:
    return torch.frombuffer(contents, dtype=torch.uint8).untyped_storage()
