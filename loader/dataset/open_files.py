"""Files that stay open while samples are read from them."""

from __future__ import annotations

import resource
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from weakref import ref

from ..storage import ReadableFile

_MAX_OPEN = 4096  # more than a run reads from at a time
_MIN_OPEN = 16  # a lower limit would open files again and again
_COMMON_SHARE = 16
_MIN_COMMON = 4  # where a process may open 64 files, Python itself needs some


class OpenFiles:
    """Open files by key. Adding a file too many drops the one that was opened first.

    Threads may use it at the same time without a lock, and a process may fork at any time: each change of the table is
    one atomic step, and a dropped file closes itself when no thread reads from it any more.

    Args:
        most: Largest number of open files; None for a share of the process's limit, at most 4,096.
        share: The share is one of so many, since torch also passes tensors as files. By default, all such pools of the
            process have a sixteenth in common: a metadataset may open more datasets than a process may open files.
    """

    def __init__(self, most: int | None = None, *, share: int | None = None) -> None:
        self._is_common = most is None and share is None
        # A run may open many datasets, so their pools share one limit.
        if self._is_common:
            most = max(_MIN_COMMON, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _COMMON_SHARE)
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
        # Drop the oldest files of all pools with the common limit.
        if self._is_common:
            _opened.append(ref(self))
            while len(_opened) > self._most:
                with suppress(IndexError):  # another thread has dropped it
                    pool = _opened.popleft()()
                    if pool is not None:
                        pool.drop_first()
        # A pool with its own limit drops its own oldest files.
        while not self._is_common and len(self._files) >= self._most:
            self.drop_first()
        return self._files.setdefault(key, file)

    def drop_first(self) -> None:
        with suppress(KeyError, RuntimeError, StopIteration):  # another thread has changed the files
            self._files.pop(next(iter(self._files)))

    def drop(self, key: Hashable) -> None:
        self._files.pop(key, None)

    def close(self) -> None:
        self._files.clear()


_opened: deque[ref[OpenFiles]] = deque()
"""The pool of each file that was added to a pool of the common share, in the order in which they were added."""
