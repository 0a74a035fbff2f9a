"""Messages between processes: all large tensors and arrays of a message in one piece of shared memory.

torch shares each tensor separately, which costs a file, a mapping and a handshake between the processes for each. It
sends arrays through a pipe. The package's docstring lists the invariants.
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

_MIN_BYTES = 2048  # smaller contents travel in the pickle
_MAX_PICKLE = 32 << 10  # bytes; larger ones travel in shared memory, too
_ALIGNMENT = 64  # bytes, as the allocators of torch and numpy align

PackedMessage = tuple[bytes, Any, list[tuple[int, int]]]
"""The pickle; the shared memory (a segment, a tensor, or None); and the half-open byte ranges of it that the pickle
refers to, in order. A large pickle is in the last range instead, and the first item is empty."""


def pack_message(message: Any, pool: SegmentPool | None = None) -> PackedMessage:
    """Pack a message of a worker; copies the contents of tensors and arrays.

    Args:
        message: Any object that pickles.
        pool: The segments of the worker. None, or a pool without a free segment, uses torch's shared memory.
    """
    stream = io.BytesIO()
    contents: list[memoryview] = []
    ranges: list[tuple[int, int]] = []

    def stays_in_pickle(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _MIN_BYTES or raw.readonly:
            return True
        start = -(-ranges[-1][1] // _ALIGNMENT) * _ALIGNMENT if ranges else 0
        ranges.append((start, start + raw.nbytes))
        contents.append(raw)
        return False

    _Pickler(stream, pickle.HIGHEST_PROTOCOL, True, stays_in_pickle).dump(message)
    pickled = stream.getvalue()
    if len(pickled) > _MAX_PICKLE:  # a pipe has room for 64 KiB
        stays_in_pickle(pickle.PickleBuffer(bytearray(pickled)))
        pickled = b""
    if not ranges:
        return pickled, None, ranges
    shared: Any
    taken = pool.take(ranges[-1][1]) if pool is not None else None
    if taken is not None:
        shared, memory = taken[0], memoryview(taken[1])
    else:
        shared = _new_shared_tensor(ranges[-1][1])
        memory = memoryview(shared.numpy())
    for (start, stop), content in zip(ranges, contents, strict=True):
        memory[start:stop] = content
    memory.release()
    return pickled, shared, ranges


def unpack_message(packed: PackedMessage, flags: SegmentFlags | None) -> Any:
    """Unpack a message; its tensors and arrays are views of the shared memory, and writable.

    Args:
        packed: The result of :func:`pack_message`, received from a worker.
        flags: The owners of segments, for the release of this message's segment. None if workers have no segments.
    """
    data, shared, ranges = packed
    if shared is None:
        return pickle.loads(data)  # noqa: S301 - of our own worker process
    if flags is None or isinstance(shared, torch.Tensor):
        memory = memoryview(shared.numpy().data)
    else:
        memory = view_of_segment(shared, ranges[-1][1], flags)
    pieces = _pieces(memory, ranges)
    return pickle.loads(data or pieces.pop(), buffers=pieces)  # noqa: S301 - of our own worker process


def _pieces(memory: memoryview, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
    return [memory[start:stop] for start, stop in ranges]


def _new_shared_tensor(size_bytes: int) -> torch.Tensor:
    make: Any = torch.UntypedStorage._new_shared  # noqa: SLF001 - torch's own collation calls it
    storage = make(size_bytes)
    return torch.empty(0, dtype=torch.uint8).set_(storage)


class _Pickler(ForkingPickler):
    """A pickler that passes the contents of tensors out of band, as numpy does for arrays.

    torch's own reducers would send a file for each tensor, which the reader requests from the worker. A message may be
    read after its worker has ended.
    """

    def reducer_override(self, value: Any) -> Any:
        if type(value) is torch.Tensor:
            return _reduce_tensor(value)
        if type(value) is UntypedStorage and value.device.type == "cpu" and value.nbytes():
            return _restore_storage, (_contents(torch.empty(0, dtype=torch.uint8).set_(value)),)
        return NotImplemented


def _reduce_tensor(value: torch.Tensor) -> Any:
    """Reduce a tensor for pickling; torch itself reduces unusual ones, and passes on their storages."""
    if value.device.type != "cpu" or value.layout is not torch.strided or value.requires_grad or not value.numel():
        return NotImplemented
    if value.is_quantized:
        reduce_by_torch: Any = value.__reduce_ex__
        return reduce_by_torch(pickle.HIGHEST_PROTOCOL)
    value = value.resolve_conj().resolve_neg()  # flags of a tensor that change the meaning of its contents
    if value.is_contiguous():
        return _restore_tensor, (_contents(value), value.dtype, tuple(value.shape))
    # The elements in the order of their addresses, without the gaps between them.
    order = sorted(range(value.dim()), key=value.stride, reverse=True)
    dense = value.permute(order).contiguous()
    dims = tuple(map(order.index, range(value.dim())))
    return _restore_permuted_tensor, (_contents(dense), value.dtype, tuple(dense.shape), dims)


def _contents(value: torch.Tensor) -> pickle.PickleBuffer:
    # A contiguous tensor of one element may have any stride, which view(torch.uint8) would refuse.
    flat = value.as_strided((value.numel(),), (1,))
    return pickle.PickleBuffer(flat.view(torch.uint8).numpy().data)


def _restore_tensor(contents: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.frombuffer(contents, dtype=dtype).reshape(shape)


def _restore_permuted_tensor(
    contents: Any, dtype: torch.dtype, shape: tuple[int, ...], dims: tuple[int, ...]
) -> torch.Tensor:
    return _restore_tensor(contents, dtype, shape).permute(dims)


def _restore_storage(contents: Any) -> UntypedStorage:
    return torch.frombuffer(contents, dtype=torch.uint8).untyped_storage()
