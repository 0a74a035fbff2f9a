"""Shared memory that workers use again and again to send the contents of tensors and arrays.

Memory that is new costs more than what is written to it: the system clears and maps each page when it is first touched,
on both sides. So a worker keeps a few segments, the rank maps each of them once, and a segment is free again as soon as
nothing in the rank's process looks into it any more.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Sequence
from multiprocessing import RawArray
from typing import Any, NamedTuple

__all__ = ["SegmentFlags", "SegmentPool", "SentSegment", "forget_segments", "view_of_segment"]

_SEGMENTS = 16  # of a worker; more batches than the rank is likely to hold at a time
_SPARE = 1.25  # how much larger than asked for a segment is made, so that it fits the next message


class SegmentFlags:
    """Which segments of which worker are in use: a byte for each, which worker and rank share.

    Args:
        workers: The rank's worker processes.
    """

    def __init__(self, workers: int) -> None:
        self._flags: Any = RawArray(ctypes.c_ubyte, workers * _SEGMENTS)

    def is_free(self, worker: int, number: int) -> bool:
        """Tell whether nobody looks into a segment."""
        return not self._flags[worker * _SEGMENTS + number]

    def take(self, worker: int, number: int) -> None:
        """Note that a segment is on its way to the rank."""
        self._flags[worker * _SEGMENTS + number] = 1

    def release(self, worker: int, number: int) -> None:
        """Note that it may be used again."""
        self._flags[worker * _SEGMENTS + number] = 0


class _Name(NamedTuple):
    """What tells a segment from others."""

    pid: int  # of its worker process
    worker: int
    number: int  # which of the worker's
    generation: int  # how often the worker has replaced it by a larger one


class SentSegment:
    """A segment on its way to the rank, which opens it when it reads the message, while the worker is there.

    Args:
        name: Which segment.
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
    """A segment as the rank sees it."""

    name: _Name
    memory: mmap.mmap


_attached: dict[tuple[int, int], _Attached] = {}  # by process id and number: what this process has mapped


def _attach(name: _Name, file: int, size_bytes: int) -> _Attached:
    known = _attached.get((name.pid, name.number))
    if known is not None and known.name == name:
        return known
    descriptor = os.open(f"/proc/{name.pid}/fd/{file}", os.O_RDWR | os.O_CLOEXEC)
    try:
        memory = mmap.mmap(descriptor, size_bytes)
    finally:
        os.close(descriptor)
    attached = _attached[name.pid, name.number] = _Attached(name, memory)
    return attached


def forget_segments(pids: Sequence[int]) -> None:
    """Unmap the segments of workers that have ended, once nothing looks into them."""
    for key in [key for key in _attached if key[0] in pids]:
        del _attached[key]


def view_of_segment(segment: _Attached, size_bytes: int, flags: SegmentFlags) -> memoryview:
    """Look into a segment; it is free again when the view, and all that was made of it, are gone."""
    exporter = (ctypes.c_ubyte * size_bytes).from_buffer(segment.memory)
    weakref.finalize(exporter, _release, flags, segment.name, os.getpid()).atexit = False
    return memoryview(exporter).cast("B")


def _release(flags: SegmentFlags, name: _Name, pid: int) -> None:
    # A process that was forked from the rank has copies of what the rank holds; that they are gone says nothing.
    if os.getpid() == pid:
        flags.release(name.worker, name.number)


class _Segment:
    """A segment as its worker sees it."""

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
        """Give the memory back, as far as the rank does not look into it."""
        self.memory.close()
        os.close(self.file)


class SegmentPool:
    """The segments of a worker process.

    Args:
        worker: Which worker.
        flags: What it shares with its rank.
    """

    def __init__(self, worker: int, flags: SegmentFlags) -> None:
        self._worker = worker
        self._flags = flags
        self._segments: list[_Segment] = []

    def take(self, size_bytes: int) -> tuple[SentSegment, mmap.mmap] | None:
        """Give a free segment that holds so many bytes, to send and to write to; None where all are in use."""
        free = [number for number in range(len(self._segments)) if self._flags.is_free(self._worker, number)]
        fits = [number for number in free if self._segments[number].size_bytes >= size_bytes]
        if fits:
            number = min(fits, key=lambda number: self._segments[number].size_bytes)
        elif len(self._segments) < _SEGMENTS:
            number = len(self._segments)
            self._segments.append(_Segment(0, _rounded(size_bytes)))
        elif free:
            number = free[0]
            replaced = self._segments[number]
            self._segments[number] = _Segment(replaced.generation + 1, _rounded(size_bytes))
            replaced.close()
        else:
            return None
        segment = self._segments[number]
        self._flags.take(self._worker, number)
        name = _Name(os.getpid(), self._worker, number, segment.generation)
        return SentSegment(name, segment.file, segment.size_bytes), segment.memory


def _rounded(size_bytes: int) -> int:
    return -(-int(size_bytes * _SPARE) // mmap.PAGESIZE) * mmap.PAGESIZE
