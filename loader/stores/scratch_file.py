"""Temporary space on a disk, in files without a name.

The system deletes a file without a name when the last process that has it open ends, for any reason: an exception, a
signal or a crash. No other process can open it.
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

from ..storage.local import pread_all
from ..storage.protocol import raise_storage_error

_SEGMENTS = 64  # at the largest size: without holes, space is freed only a whole segment at a time
_MIN_SEGMENT_BYTES = 256 << 20
_BLOCK = 4096  # bytes; holes consist of whole blocks of the disk
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # flags of linux/falloc.h


class _Segment:
    """A file without a name; it is closed when it and its extents are dropped."""

    def __init__(self, folder: str) -> None:
        self.fd = -1
        with tempfile.TemporaryFile(dir=folder) as file:  # without a name, and only for this user
            self.fd = os.dup(file.fileno())
        self.end = 0
        self.extents = 0
        self.size_bytes = 0  # of the extents that take space

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at an exit, modules may be gone
        if self.fd >= 0:
            close(self.fd)


@dataclass(frozen=True, slots=True)
class Extent:
    """A range of a segment: bytes ``[offset, offset + size_bytes)``."""

    segment: _Segment
    offset: int
    size_bytes: int

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.pwrite(self.segment.fd, rest, self.offset + len(data) - len(rest)) :]

    def read(self) -> bytes:
        data = pread_all(self.segment.fd, self.offset, self.size_bytes)
        if len(data) < self.size_bytes:
            raise OSError(f"a cache file ends {self.size_bytes - len(data)} bytes early")
        return data


class ScratchFile:
    """Space on a disk that is reserved and released in extents. Only one thread at a time may reserve or release.

    Extents follow each other in segments. A released extent becomes a hole in its segment, if the system and the disk
    can punch holes (macOS cannot by this call); else its space is freed when the whole segment is released.

    Args:
        max_bytes: Largest size that will be reserved; segments are a fraction of it.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = str(folder)
        self._segment_bytes = max(_MIN_SEGMENT_BYTES, max_bytes // _SEGMENTS)
        self._segment: _Segment | None = None
        self.size_bytes = 0
        """Size of the extents that take space on the disk, which rounds each up to whole blocks."""
        try:
            os.makedirs(folder, exist_ok=True)
            self._segment = _Segment(self._folder)
        except OSError as error:
            raise_storage_error("create a cache file in this folder", self._folder, error)

    def reserve(self, size_bytes: int) -> Extent:
        segment = self._segment
        if segment is None or segment.end >= self._segment_bytes:
            segment = self._segment = _Segment(self._folder)
        extent = Extent(segment, segment.end, size_bytes)
        segment.end += whole_blocks(size_bytes)
        segment.extents += 1
        segment.size_bytes += size_bytes
        self.size_bytes += size_bytes
        return extent

    def release(self, extent: Extent) -> None:
        segment = extent.segment
        segment.extents -= 1
        freed = 0
        if not segment.extents:
            freed = segment.size_bytes
            segment.end = 0
            with suppress(OSError):
                os.ftruncate(segment.fd, 0)
        elif _punch_hole(segment.fd, extent.offset, whole_blocks(extent.size_bytes)):
            freed = extent.size_bytes
        segment.size_bytes -= freed
        self.size_bytes -= freed

    def close(self) -> None:
        """Close the segments; those with extents in use stay readable, and are closed when these are dropped."""
        self._segment = None


def whole_blocks(size_bytes: int) -> int:
    """Return the size on disk of some bytes."""
    return -(-size_bytes // _BLOCK) * _BLOCK


def _punch_hole(fd: int, offset: int, size_bytes: int) -> bool:
    """Free a range of a file; return False if the system or the disk cannot do that."""
    if not size_bytes:
        return True
    fallocate = _fallocate()
    return fallocate is not None and fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, offset, size_bytes) == 0


@cache
def _fallocate() -> Callable[..., int] | None:
    """Find ``fallocate`` in the C library: Python has only ``posix_fallocate``. None on macOS, which lacks it."""
    library = ctypes.CDLL(None)
    function: Any = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return cast("Callable[..., int] | None", function)
