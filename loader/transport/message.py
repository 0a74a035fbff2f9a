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
from multiprocessing import RawArray
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.storage import UntypedStorage

_MAX_SEGMENTS = 16  # of a worker; a rank rarely holds more batches at a time
_SPARE = 1.25  # a new segment is larger than its message by this factor, so that it fits the next message, too

_PROCESSES = Path("/proc")  # Linux gives access to the open files of other processes there


def new_flags() -> Any:
    """Return the owners of the segments of a new worker, a shared byte each: 1 is the rank.

    Segments need ``memfd_create`` and ``/proc``, which macOS lacks; there, the result is None.
    """
    has_segments = hasattr(os, "memfd_create") and (_PROCESSES / str(os.getpid()) / "fd").is_dir()
    return RawArray(ctypes.c_ubyte, _MAX_SEGMENTS) if has_segments else None


class _Address(NamedTuple):
    """The address at which a rank opens a segment, while its worker runs."""

    pid: int  # of its worker process
    number: int  # in [0, 16), among the worker's segments
    file: int
    size_bytes: int  # one that replaces a segment is larger


class AttachedSegments:
    """The segments of a worker that its rank has mapped.

    Args:
        flags: Their owners.
    """

    def __init__(self, flags: Any) -> None:
        self._flags = flags
        self._mapped: dict[int, tuple[_Address, mmap.mmap]] = {}  # by number

    def view(self, address: _Address, size_bytes: int) -> memoryview:
        """Return the first bytes of a segment; it is released with the last object that refers to the view."""
        known, memory = self._mapped.get(address.number, (None, None))
        if memory is None or known != address:
            file = os.open(_PROCESSES / str(address.pid) / "fd" / str(address.file), os.O_RDWR | os.O_CLOEXEC)
            try:
                memory = mmap.mmap(file, address.size_bytes)
            finally:
                os.close(file)
            self._mapped[address.number] = address, memory
        exporter = (ctypes.c_ubyte * size_bytes).from_buffer(memory)
        weakref.finalize(exporter, _release, self._flags, address.number, os.getpid()).atexit = False
        return memoryview(exporter).cast("B")

    def mapped_bytes(self) -> int:
        return sum(len(memory) for _, memory in [*self._mapped.values()])

    def forget(self) -> None:
        """Unmap the segments; tensors that refer to them keep their mappings."""
        self._mapped.clear()


def _release(flags: Any, index: int, pid: int) -> None:
    # A process forked from the rank frees copies of the rank's objects; the rank may still use its own.
    if os.getpid() == pid:
        flags[index] = 0


class _Segment:
    def __init__(self, index: int, size_bytes: int) -> None:
        file = os.memfd_create("energon-batches", os.MFD_CLOEXEC)
        try:
            os.ftruncate(file, size_bytes)
            self.memory = mmap.mmap(file, size_bytes)
        except BaseException:
            os.close(file)
            raise
        self.address = _Address(os.getpid(), index, file, size_bytes)

    def close(self) -> None:
        """Unmap the memory; mappings of the rank stay."""
        self.memory.close()
        os.close(self.address.file)


class SegmentPool:
    """The segments of a worker process.

    Args:
        flags: Their owners.
    """

    def __init__(self, flags: Any) -> None:
        self._flags = flags
        self._segments: list[_Segment] = []

    def take(self, size_bytes: int) -> _Segment | None:
        """Return a free segment of at least ``size_bytes``, to send and to write to; None if all are in use."""
        # Take the smallest free segment that fits; else create one; else replace one that is free and too small.
        new_bytes = -(-int(size_bytes * _SPARE) // mmap.PAGESIZE) * mmap.PAGESIZE
        free = [segment for segment in self._segments if not self._flags[segment.address.number]]
        fits = [segment for segment in free if segment.address.size_bytes >= size_bytes]
        if fits:
            segment = min(fits, key=attrgetter("address.size_bytes"))
        elif len(self._segments) < _MAX_SEGMENTS:
            segment = _Segment(len(self._segments), new_bytes)
            self._segments.append(segment)
        elif free:
            segment = _Segment(free[0].address.number, new_bytes)
            self._segments[segment.address.number] = segment
            free[0].close()
        else:
            return None
        self._flags[segment.address.number] = 1
        return segment


_MIN_BYTES = 2048  # smaller contents travel in the pickle
_MAX_PICKLE = 32 << 10  # bytes; a pipe has room for 64 KiB, so a longer pickle travels in shared memory
_ALIGNMENT = 64  # bytes, as the allocators of torch and numpy align


class Pickled(NamedTuple):
    """An object that was pickled where its samples are known; the bundle that has it is pickled around it.

    Attributes:
        contents: The buffers of large tensors and arrays, which are outside of the pickle.
    """

    data: Any
    contents: list[Any]

    def unpickle(self) -> Any:
        return pickle.loads(self.data, buffers=self.contents)  # noqa: S301 - a worker of this run wrote it


class ObjectPickler(ForkingPickler):
    """Pickles objects, one after the other, with the contents of tensors out of band, as numpy does for arrays.

    torch's own reducers would send a file for each tensor, which the reader requests from the worker. A message may be
    read after its worker has ended.
    """

    def __init__(self) -> None:
        self._contents: list[pickle.PickleBuffer] = []
        self._stream = io.BytesIO()
        arguments: Any = (self._stream, pickle.HIGHEST_PROTOCOL, True, self._stays_in_pickle)
        super().__init__(*arguments)
        # Python looks each object of a class up in this table, which ForkingPickler makes of several dicts: slow.
        self.dispatch_table = {**self.dispatch_table, torch.Tensor: _reduce_tensor, UntypedStorage: _reduce_storage}

    def pickle_object(self, value: Any) -> Pickled:
        """Pickle an object. One that does not pickle raises an error, and leaves nothing behind for the next one."""
        try:
            self.dump(value)
            data = self._stream.getvalue()
            return Pickled(pickle.PickleBuffer(data) if len(data) > _MAX_PICKLE else data, self._contents)
        finally:
            self._contents = []  # the pickler's callback makes a cycle, which would keep the memory of batches
            self._stream.seek(0)
            self._stream.truncate()
            self.clear_memo()

    def _stays_in_pickle(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _MIN_BYTES or raw.readonly:
            return True
        self._contents.append(buffer)
        return False


PackedBundle = tuple[bytes, Any, list[tuple[int, int]]]
"""The pickle of a bundle; the shared memory (the address of a segment, a tensor, or None); and the half-open byte
ranges of the buffers in it, in order. A pickle without room in the pipe is the last range, and empty here."""


def pack_bundle(bundle: Any, pool: SegmentPool | None = None) -> PackedBundle:
    """Return a bundle in a form that goes through a pipe, with a copy of the contents of its :class:`Pickled` objects.

    Args:
        pool: The segments of the worker. None, or a pool without a free segment, uses torch's shared memory.
    """
    # A pipe holds little before it blocks the worker: a longer pickle goes to the shared memory.
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(bundle, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    contents = [buffer.raw() for buffer in buffers]
    if len(data) > _MAX_PICKLE:
        contents.append(memoryview(data))
        data = b""
    # Lay out the contents one after the other, aligned for tensors.
    ranges: list[tuple[int, int]] = []
    for content in contents:
        start = -(-ranges[-1][1] // _ALIGNMENT) * _ALIGNMENT if ranges else 0
        ranges.append((start, start + content.nbytes))
    if not ranges:
        return data, None, ranges
    # A pool lends memory that the rank has mapped already; without one, or if all is in use, memory is created.
    segment = None if pool is None else pool.take(ranges[-1][1])
    shared: Any = _new_shared_tensor(ranges[-1][1]) if segment is None else segment.address
    memory = memoryview(shared.numpy() if segment is None else segment.memory)
    for (start, stop), content in zip(ranges, contents, strict=True):
        memory[start:stop] = content
    memory.release()
    return data, shared, ranges


def unpack_bundle(packed: PackedBundle, segments: AttachedSegments) -> Any:
    """Return a bundle; :meth:`Pickled.unpickle` returns the objects in it.

    Their tensors and arrays are views of the shared memory, and writable.

    Args:
        packed: The result of :func:`pack_bundle`, received from a worker.
        segments: The segments of that worker.
    """
    data, shared, ranges = packed
    memory = memoryview(b"")
    if isinstance(shared, torch.Tensor):
        memory = memoryview(shared.numpy().data)
    elif shared is not None:
        memory = segments.view(shared, ranges[-1][1])
    buffers = [memory[start:stop] for start, stop in ranges]
    return pickle.loads(data or buffers.pop(), buffers=buffers)  # noqa: S301 - a worker of this run wrote it


def _new_shared_tensor(size_bytes: int) -> torch.Tensor:
    make: Any = torch.UntypedStorage._new_shared  # noqa: SLF001 - torch's own collation calls it
    storage = make(size_bytes)
    return torch.empty(0, dtype=torch.uint8).set_(storage)


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
