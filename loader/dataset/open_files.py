"""Files that stay open while samples are read from them."""

from __future__ import annotations

import resource
from collections.abc import Hashable
from contextlib import suppress
from weakref import WeakSet

from ..storage import ReadableFile

_MAX_OPEN = 4096  # more than a run reads from at a time
_MIN_OPEN = 16  # a lower limit would open files again and again
_DIVIDED_SHARE = 16
_MIN_DIVIDED = 4  # where a process may open 64 files, Python itself needs some


class OpenFiles:
    """Open files by key. Adding a file too many drops the one that was opened first.

    Threads may use it at the same time without a lock, and a process may fork at any time: each change of the table is
    one atomic step, and a dropped file closes itself when no thread reads from it any more.

    Args:
        most: Largest number of open files; None for a share of the process's limit, at most 4,096.
        share: The share is one of so many, since torch also passes tensors as files. By default, all such pools of the
            process divide a sixteenth: a metadataset opens many datasets.
    """

    def __init__(self, most: int | None = None, *, share: int | None = None) -> None:
        self._divided = most is None and share is None
        if most is None and share is None:
            _dividing.add(self)
            most = max(_MIN_DIVIDED, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _DIVIDED_SHARE)
        if most is None:
            most = min(_MAX_OPEN, max(_MIN_OPEN, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // (share or 1)))
        self._most = most
        self._files: dict[Hashable, ReadableFile] = {}
        self.find = self._files.get
        """Return the open file of a key, or None."""

    def __len__(self) -> int:
        return len(self._files)

    def add(self, key: Hashable, file: ReadableFile) -> ReadableFile:
        """Add an open file, and return it; if another thread was faster, return that thread's."""
        most = max(1, self._most // len(_dividing)) if self._divided else self._most
        while len(self._files) >= most:
            with suppress(KeyError, RuntimeError, StopIteration):  # another thread has changed the files
                self._files.pop(next(iter(self._files)))
        return self._files.setdefault(key, file)

    def drop(self, key: Hashable) -> None:
        """Drop the file of a key, if it is open."""
        self._files.pop(key, None)

    def close(self) -> None:
        """Drop all files."""
        self._files.clear()


_dividing: WeakSet[OpenFiles] = WeakSet()
"""The pools that divide one share of the process's limit."""
