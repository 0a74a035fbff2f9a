"""Bytes on a disk for as long as this process lives, in files without a name.

A file that has no name is gone when the last process that has it open ends, however it ends: nothing is left behind by
an exception, a signal or a crash, nobody else can open it, and its place is free again.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from ..storage.os_error import fail

__all__ = ["Extent", "ScratchFile", "whole_blocks"]

_SEGMENTS = 64  # of the largest size that is wanted: one is given back whole where holes can't be punched
_LEAST_SEGMENT_BYTES = 256 << 20
_BLOCK = 4096  # holes have whole blocks of the disk
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # of linux/falloc.h


class _Segment:
    """A file without a name; it closes itself when it and its extents are dropped."""

    __slots__ = ("end", "extents", "fd", "size_bytes")

    def __init__(self, folder: str) -> None:
        self.fd = -1
        with tempfile.TemporaryFile(dir=folder) as file:  # private, and without a name
            self.fd = os.dup(file.fileno())
        self.end = 0
        self.extents = 0
        self.size_bytes = 0  # that it takes of the disk

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes that were written: ``[offset, offset + size_bytes)`` of a segment."""

    segment: _Segment
    offset: int
    size_bytes: int

    def write(self, data: bytes) -> None:
        """Write all; from any thread.

        Raises:
            OSError: The disk is full.
        """
        rest = memoryview(data)
        while rest:
            rest = rest[os.pwrite(self.segment.fd, rest, self.offset + len(data) - len(rest)) :]

    def read(self) -> bytes:
        """Read all; from any thread."""
        pieces: list[bytes] = []
        done = 0
        while done < self.size_bytes:
            pieces.append(os.pread(self.segment.fd, self.size_bytes - done, self.offset + done))
            done += len(pieces[-1])
            if not pieces[-1]:
                raise OSError(f"a cache file ends {self.size_bytes - done} bytes early")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class ScratchFile:
    """Room on a disk that is written, read and given back in pieces. Not for several threads at once, but for reading.

    Pieces lie behind each other in segments. The place of one that is given back is a hole, where the disk can do that;
    else it is free when the whole segment is.

    Args:
        folder: On the disk; it is made if it is not there.
        max_bytes: How much is wanted at most, for the size of segments.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = str(folder)
        self._segment_bytes = max(_LEAST_SEGMENT_BYTES, max_bytes // _SEGMENTS)
        self._segment: _Segment | None = None
        self.size_bytes = 0
        """How much of the disk is taken."""
        try:
            os.makedirs(folder, exist_ok=True)
            self._segment = _Segment(self._folder)
        except OSError as error:
            fail("create a cache file in this folder", self._folder, error)

    def reserve(self, size_bytes: int) -> Extent:
        """Take room for some bytes, which are then written to it.

        Raises:
            OSError: No further file can be made there.
        """
        segment = self._segment
        if segment is None or segment.end >= self._segment_bytes:
            segment = self._segment = _Segment(self._folder)
        taken = whole_blocks(size_bytes)
        extent = Extent(segment, segment.end, size_bytes)
        segment.end += taken
        segment.extents += 1
        segment.size_bytes += taken
        self.size_bytes += taken
        return extent

    def release(self, extent: Extent) -> None:
        """Give the room of an extent back."""
        segment = extent.segment
        segment.extents -= 1
        freed = 0
        if not segment.extents:
            freed = segment.size_bytes
            segment.end = 0
            with suppress(OSError):
                os.ftruncate(segment.fd, 0)
        elif _punch_hole(segment.fd, extent.offset, whole_blocks(extent.size_bytes)):
            freed = whole_blocks(extent.size_bytes)
        segment.size_bytes -= freed
        self.size_bytes -= freed

    def close(self) -> None:
        """Give all back; extents that are still held can be read, and are given back when they are dropped."""
        self._segment = None


def whole_blocks(size_bytes: int) -> int:
    """Give how many bytes of the disk some bytes take."""
    return -(-size_bytes // _BLOCK) * _BLOCK


def _punch_hole(fd: int, offset: int, size_bytes: int) -> bool:
    """Free a part of a file; tell whether the disk can do that."""
    if not size_bytes:
        return True
    fallocate = _fallocate()
    return fallocate is not None and fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, offset, size_bytes) == 0


@cache
def _fallocate() -> Callable[..., int] | None:
    """Find the function of the C library; Python has only the one that takes no flags."""
    library = ctypes.CDLL(None)
    function: Any = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return cast("Callable[..., int] | None", function)
