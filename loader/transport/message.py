"""Bundles of messages between processes: all their large tensors and arrays in one piece of shared memory.

torch shares each tensor separately, which costs a file, a mapping and a handshake between the processes for each. It
sends arrays through a pipe. The package's docstring lists the invariants.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from multiprocessing import RawArray
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.storage import UntypedStorage

_MAX_SEGMENTS = 16  # of a worker; a rank rarely holds more batches at a time
_SPARE = 1.25  # a new segment is larger than its message by this factor, so that it fits the next message, too

_PROCESSES = Path("/proc")  # Linux gives access to the open files of other processes there


def has_segments() -> bool:
    """Report whether this system can share segments: it needs ``memfd_create`` and ``/proc``, which macOS lacks."""
    return hasattr(os, "memfd_create") and (_PROCESSES / str(os.getpid()) / "fd").is_dir()


class SegmentFlags:
    """The owners of the segments of a worker: a byte for each, shared by the worker and its rank; 1 for the rank."""

    def __init__(self) -> None:
        self._flags: Any = RawArray(ctypes.c_ubyte, _MAX_SEGMENTS)

    def is_free(self, segment: int) -> bool:
        return not self._flags[segment]

    def take(self, segment: int) -> None:
        self._flags[segment] = 1

    def release(self, segment: int) -> None:
        self._flags[segment] = 0


class _Name(NamedTuple):
    """The identity of a segment among all that a rank sees."""

    pid: int  # of its worker process
    number: int  # in [0, 16), among the worker's segments
    generation: int  # the number of times that the worker replaced it by a larger one


_Attached = tuple[_Name, mmap.mmap]
_attached: dict[tuple[int, int], _Attached] = {}  # this process's mappings, by process id and number of the segment


def _attach(name: _Name, file: int, size_bytes: int) -> _Attached:
    known = _attached.get((name.pid, name.number))
    if known is not None and known[0] == name:
        return known
    descriptor = os.open(_PROCESSES / str(name.pid) / "fd" / str(file), os.O_RDWR | os.O_CLOEXEC)
    try:
        memory = mmap.mmap(descriptor, size_bytes)
    finally:
        os.close(descriptor)
    attached = _attached[name.pid, name.number] = name, memory
    return attached


def forget_segments(pids: Sequence[int]) -> None:
    """Unmap the segments of workers that have ended; tensors that refer to them keep their mappings."""
    for key in [key for key in _attached if key[0] in pids]:
        del _attached[key]


def mapped_bytes(pids: Sequence[int]) -> int:
    """Return the size of the segments of some workers that this process has mapped."""
    return sum(len(memory) for name, memory in [*_attached.values()] if name.pid in pids)


def _view(segment: _Attached, size_bytes: int, flags: SegmentFlags) -> memoryview:
    """Return the first bytes of a segment; it is released with the last object that refers to the view."""
    name, memory = segment
    exporter = (ctypes.c_ubyte * size_bytes).from_buffer(memory)
    weakref.finalize(exporter, _release, flags, name, os.getpid()).atexit = False
    return memoryview(exporter).cast("B")


def _release(flags: SegmentFlags, name: _Name, pid: int) -> None:
    # A process forked from the rank frees copies of the rank's objects; the rank may still use its own.
    if os.getpid() == pid:
        flags.release(name.number)


class _Segment:
    # The rank opens it when it reads a message, while the worker still runs.

    def __init__(self, index: int, generation: int, size_bytes: int) -> None:
        self.name = _Name(os.getpid(), index, generation)
        self.size_bytes = size_bytes
        self.file = os.memfd_create("energon-batches", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.file, size_bytes)
            self.memory = mmap.mmap(self.file, size_bytes)
        except BaseException:
            os.close(self.file)
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (self.name, self.file, self.size_bytes)

    def close(self) -> None:
        """Unmap the memory; mappings of the rank stay."""
        self.memory.close()
        os.close(self.file)


class SegmentPool:
    """The segments of a worker process."""

    def __init__(self, flags: SegmentFlags) -> None:
        self._flags = flags
        self._segments: list[_Segment] = []

    def take(self, size_bytes: int) -> _Segment | None:
        """Return a free segment of at least ``size_bytes``, to send and to write to; None if all are in use."""
        # Take the smallest free segment that fits; else create one; else replace one that is free and too small.
        free = [segment for segment in range(len(self._segments)) if self._flags.is_free(segment)]
        fits = [segment for segment in free if self._segments[segment].size_bytes >= size_bytes]
        if fits:
            segment = min(fits, key=lambda segment: self._segments[segment].size_bytes)
        elif len(self._segments) < _MAX_SEGMENTS:
            segment = len(self._segments)
            self._segments.append(_Segment(segment, 0, _rounded_up(size_bytes)))
        elif free:
            segment = free[0]
            replaced = self._segments[segment]
            self._segments[segment] = _Segment(segment, replaced.name.generation + 1, _rounded_up(size_bytes))
            replaced.close()
        else:
            return None
        self._flags.take(segment)
        return self._segments[segment]


def _rounded_up(size_bytes: int) -> int:
    return -(-int(size_bytes * _SPARE) // mmap.PAGESIZE) * mmap.PAGESIZE


_MIN_BYTES = 2048  # smaller contents travel in the pickle
_MAX_PICKLES = 32 << 10  # bytes of a bundle; a pipe has room for 64 KiB, so the rest travels in shared memory, too
_ALIGNMENT = 64  # bytes, as the allocators of torch and numpy align

PackedBundle = tuple[list[tuple[bytes, int]], Any, list[tuple[int, int]]]
"""The pickle of each message with the number of byte ranges that it refers to; the shared memory (a segment, a tensor,
or None); and its half-open byte ranges, in order. A pickle without room in the pipe is the last range of its message
instead, and its bytes here are empty."""


class Pickled(NamedTuple):
    """An object that was pickled where its samples are known; a message that holds it is unpacked with the object."""

    data: bytes
    contents: list[memoryview]  # of large tensors and arrays, outside of the pickle

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.data, [*map(pickle.PickleBuffer, self.contents)])


def _unpickle(data: bytes, contents: list[Any]) -> Any:
    return pickle.loads(data, buffers=contents)  # noqa: S301 - a worker of this run wrote it


class ObjectPickler:
    """Pickles objects, one after the other."""

    def __init__(self) -> None:
        self._contents: list[memoryview] = []
        self._stream = io.BytesIO()
        self._pickler = _Pickler(self._stream, pickle.HIGHEST_PROTOCOL, True, self._stays_in_pickle)

    def pickle_object(self, value: Any) -> Pickled:
        """Pickle an object. One that does not pickle raises an error, and leaves nothing behind for the next one."""
        try:
            self._pickler.dump(value)
            return Pickled(self._stream.getvalue(), self._contents)
        finally:
            self._contents = []  # the pickler's callback makes a cycle, which would keep the memory of batches
            self._stream.seek(0)
            self._stream.truncate()
            self._pickler.clear_memo()

    def _stays_in_pickle(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _MIN_BYTES or raw.readonly:
            return True
        self._contents.append(raw)
        return False


def pack_bundle(messages: Sequence[Pickled], pool: SegmentPool | None = None) -> PackedBundle:
    """Return the bundle of some messages; it has a copy of the contents of their tensors and arrays.

    Each message has a pickle of its own, so that the rank unpacks it when it is used: objects that exist for the time
    of one batch only are freed before Python's garbage collector would look at them.

    Args:
        pool: The segments of the worker. None, or a pool without a free segment, uses torch's shared memory.
    """
    # A pipe holds little before it blocks the worker: longer pickles go to the shared memory.
    pickles: list[tuple[bytes, int]] = []
    all_contents: list[memoryview] = []
    room = _MAX_PICKLES
    for data, contents in messages:
        fits = len(data) <= room
        all_contents += contents if fits else (*contents, memoryview(data))
        pickles.append((data, len(contents)) if fits else (b"", len(contents) + 1))
        room -= len(data) if fits else 0
    # Lay out the contents one after the other, aligned for tensors.
    ranges: list[tuple[int, int]] = []
    for content in all_contents:
        start = -(-ranges[-1][1] // _ALIGNMENT) * _ALIGNMENT if ranges else 0
        ranges.append((start, start + content.nbytes))
    if not ranges:
        return pickles, None, ranges
    # A pool lends memory that the rank has mapped already; without one, or if all is in use, memory is created.
    shared: Any = None if pool is None else pool.take(ranges[-1][1])
    if shared is not None:
        memory = memoryview(shared.memory)
    else:
        shared = _new_shared_tensor(ranges[-1][1])
        memory = memoryview(shared.numpy())
    for (start, stop), content in zip(ranges, all_contents, strict=True):
        memory[start:stop] = content
    memory.release()
    return pickles, shared, ranges


def unpack_bundle(packed: PackedBundle, flags: SegmentFlags | None) -> list[Callable[[], Any]]:
    """Return a function for each message of a bundle, which unpacks it.

    Tensors and arrays of the messages are views of the shared memory, and writable.

    Args:
        packed: The result of :func:`pack_bundle`, received from a worker.
        flags: The owners of segments, for the release of this bundle's segment. None if workers have no segments.
    """
    pickles, shared, ranges = packed
    memory = memoryview(b"")
    if flags is None or isinstance(shared, torch.Tensor):
        memory = memory if shared is None else memoryview(shared.numpy().data)
    elif shared is not None:
        memory = _view(shared, ranges[-1][1], flags)
    pieces = (memory[start:stop] for start, stop in ranges)
    messages: list[Callable[[], Any]] = []
    for pickled, count in pickles:
        of_message = list(islice(pieces, count))
        data = pickled or of_message.pop()
        messages.append(partial(pickle.loads, data, buffers=of_message))
    return messages


def _new_shared_tensor(size_bytes: int) -> torch.Tensor:
    make: Any = torch.UntypedStorage._new_shared  # noqa: SLF001 - torch's own collation calls it
    storage = make(size_bytes)
    return torch.empty(0, dtype=torch.uint8).set_(storage)


class _Pickler(ForkingPickler):
    """A pickler that passes the contents of tensors out of band, as numpy does for arrays.

    torch's own reducers would send a file for each tensor, which the reader requests from the worker. A message may be
    read after its worker has ended.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Python looks each object of a class up in this table, which ForkingPickler makes of several dicts: slow.
        self.dispatch_table = {**self.dispatch_table, torch.Tensor: _reduce_tensor, UntypedStorage: _reduce_storage}


def _reduce_storage(value: UntypedStorage) -> Any:
    if value.device.type != "cpu" or not value.nbytes():
        return _reduced_by_torch(value)
    return _restore_storage, (_contents(torch.empty(0, dtype=torch.uint8).set_(value)),)


def _reduced_by_torch(value: Any) -> Any:
    return ForkingPickler._extra_reducers[type(value)](value)  # type: ignore[attr-defined] # noqa: SLF001


def _reduce_tensor(value: torch.Tensor) -> Any:
    """Reduce a tensor for pickling; torch itself reduces unusual ones, and passes on their storages."""
    if value.device.type != "cpu" or value.layout is not torch.strided or value.requires_grad or not value.numel():
        return _reduced_by_torch(value)
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
