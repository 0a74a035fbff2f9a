"""Shared memory that a worker reuses to send the contents of tensors and arrays.

A worker keeps a few segments, the rank maps each of them once, and a segment is free again as soon as no object of the
rank refers to it. The package's docstring lists the invariants.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Sequence
from multiprocessing import RawArray
from pathlib import Path
from typing import Any, NamedTuple

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

    def is_free(self, number: int) -> bool:
        """Check that no object of the rank refers to a segment."""
        return not self._flags[number]

    def take(self, number: int) -> None:
        """Hand a segment over to the rank."""
        self._flags[number] = 1

    def release(self, number: int) -> None:
        """Hand a segment back to its worker."""
        self._flags[number] = 0


class _Name(NamedTuple):
    """The identity of a segment among all that a rank sees."""

    pid: int  # of its worker process
    number: int  # in [0, 16), among the worker's segments
    generation: int  # the number of times that the worker replaced it by a larger one


class SentSegment:
    """A segment on its way to the rank, which opens it when it reads the message, while the worker still runs.

    Args:
        name: The identity of the segment.
        file: The worker's descriptor of it.
        size_bytes: Its size.
    """

    __slots__ = ("_file", "_name", "_size_bytes")

    def __init__(self, name: _Name, file: int, size_bytes: int) -> None:
        self._name = name
        self._file = file
        self._size_bytes = size_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (self._name, self._file, self._size_bytes)


class _Attached(NamedTuple):
    """A segment that the rank has mapped."""

    name: _Name
    memory: mmap.mmap


_attached: dict[tuple[int, int], _Attached] = {}  # this process's mappings, by process id and number of the segment


def _attach(name: _Name, file: int, size_bytes: int) -> _Attached:
    known = _attached.get((name.pid, name.number))
    if known is not None and known.name == name:
        return known
    descriptor = os.open(_PROCESSES / str(name.pid) / "fd" / str(file), os.O_RDWR | os.O_CLOEXEC)
    try:
        memory = mmap.mmap(descriptor, size_bytes)
    finally:
        os.close(descriptor)
    attached = _attached[name.pid, name.number] = _Attached(name, memory)
    return attached


def forget_segments(pids: Sequence[int]) -> None:
    """Unmap the segments of workers that have ended; tensors that refer to them keep their mappings."""
    for key in [key for key in _attached if key[0] in pids]:
        del _attached[key]


def mapped_bytes(pids: Sequence[int]) -> int:
    """Return the size of the segments of some workers that this process has mapped."""
    return sum(len(attached.memory) for (pid, _), attached in [*_attached.items()] if pid in pids)


def view_of_segment(segment: _Attached, size_bytes: int, flags: SegmentFlags) -> memoryview:
    """Return the first bytes of a segment; it is released with the last object that refers to the view."""
    exporter = (ctypes.c_ubyte * size_bytes).from_buffer(segment.memory)
    weakref.finalize(exporter, _release, flags, segment.name, os.getpid()).atexit = False
    return memoryview(exporter).cast("B")


def _release(flags: SegmentFlags, name: _Name, pid: int) -> None:
    # A process forked from the rank frees copies of the rank's objects; the rank may still use its own.
    if os.getpid() == pid:
        flags.release(name.number)


class _Segment:
    """A segment in its worker's process."""

    def __init__(self, generation: int, size_bytes: int) -> None:
        self.generation = generation
        self.size_bytes = size_bytes
        self.file = os.memfd_create("energon-batches", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.file, size_bytes)
            self.memory = mmap.mmap(self.file, size_bytes)
        except BaseException:
            os.close(self.file)
            raise

    def close(self) -> None:
        """Unmap the memory; mappings of the rank stay."""
        self.memory.close()
        os.close(self.file)


class SegmentPool:
    """The segments of a worker process.

    Args:
        flags: The owners of the segments, shared with the rank.
    """

    def __init__(self, flags: SegmentFlags) -> None:
        self._flags = flags
        self._segments: list[_Segment] = []

    def take(self, size_bytes: int) -> tuple[SentSegment, mmap.mmap] | None:
        """Return a free segment of at least ``size_bytes``, to send and to write to; None if all are in use."""
        free = [number for number in range(len(self._segments)) if self._flags.is_free(number)]
        fits = [number for number in free if self._segments[number].size_bytes >= size_bytes]
        if fits:
            number = min(fits, key=lambda number: self._segments[number].size_bytes)
        elif len(self._segments) < _MAX_SEGMENTS:
            number = len(self._segments)
            self._segments.append(_Segment(0, _rounded_up(size_bytes)))
        elif free:
            number = free[0]
            replaced = self._segments[number]
            self._segments[number] = _Segment(replaced.generation + 1, _rounded_up(size_bytes))
            replaced.close()
        else:
            return None
        segment = self._segments[number]
        self._flags.take(number)
        name = _Name(os.getpid(), number, segment.generation)
        return SentSegment(name, segment.file, segment.size_bytes), segment.memory


def _rounded_up(size_bytes: int) -> int:
    return -(-int(size_bytes * _SPARE) // mmap.PAGESIZE) * mmap.PAGESIZE
