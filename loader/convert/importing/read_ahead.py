"""Announce the byte ranges of the next rows, so that they are read in the order of the files and at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from ...storage import PendingRead, ReadableFile
from ..rows.row import RangeRef

_MAX_GAP = 64 * 1024  # between ranges that one read fetches together
_MAX_READ = 8 << 20
_WINDOWS = 2  # that are kept: the rows that are read now, and the next ones

_Window = dict[bytes, list[tuple[int, int, PendingRead]]]


class ReadAhead:
    """Ranges of files that will be read soon.

    A local disk gets advice, sorted by file and place, and moves the bytes to its cache. From an object store, the
    ranges are fetched at the same time, those near to each other by one request.

    Args:
        open_file: Returns the open file of a path.
    """

    def __init__(self, open_file: Callable[[bytes], ReadableFile]) -> None:
        self._open_file = open_file
        self._windows: deque[_Window] = deque(maxlen=_WINDOWS)

    def announce(self, refs: Iterable[RangeRef]) -> None:
        """Begin to read a window of ranges; the ranges of the window before the last one are forgotten.

        Raises:
            EnergonError: A file cannot be opened.
        """
        window: _Window = {}
        for path, start, stop in _joined(refs):
            pending = self._open_file(path).fetch(start, stop - start)
            if pending is not None:
                window.setdefault(path, []).append((start, stop, pending))
        self._windows.append(window)

    def take(self, ref: RangeRef) -> bytes | None:
        """Return the bytes of a range that is fetched; None if it is not, and has to be read."""
        for window in self._windows:
            for start, stop, pending in window.get(ref.path, ()):
                if start <= ref.offset and ref.offset + ref.size_bytes <= stop:
                    return pending.result()[ref.offset - start : ref.offset - start + ref.size_bytes]
        return None


def _joined(refs: Iterable[RangeRef]) -> list[tuple[bytes, int, int]]:
    """Return path, start and end of the reads of some ranges, sorted; near ranges are read together."""
    reads: list[tuple[bytes, int, int]] = []
    for path, start, stop in sorted((ref.path, ref.offset, ref.offset + ref.size_bytes) for ref in refs):
        if reads:
            last_path, last_start, last_stop = reads[-1]
            if path == last_path and start - last_stop <= _MAX_GAP and stop - last_start <= _MAX_READ:
                reads[-1] = (path, last_start, max(stop, last_stop))
                continue
        reads.append((path, start, stop))
    return reads
