"""The limit of a cache in bytes, and the eviction of its oldest files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

from .private_folder import PARTIAL, PrivateFolder

_UNSEEN_BYTES = 64 << 20  # that a process adds before it counts again what others added
_EVICTED_SHARE = 32  # of the limit: evicting a little at a time would count the files each time
_COPY_AGE_S = 24 * 3600  # unused copies of whole files leave after blocks, and not before this time
_ROUNDS = 3  # of eviction: others may remove the same files
_PARTIAL_AGE_S = 600
_MOST_FREE_BYTES = 20 << 30


def size_of(name: str) -> int | None:
    """Return the bytes of a file whose name ends with them; counting does not read the status of each file."""
    _, dash, size = name.partition("-")
    return int(size) if dash and size.isdecimal() else None


class Space:
    """The bytes of a cache, counted from its files. Each process may add 64 MiB that the others do not know of.

    Args:
        files: The folder of whole files, which are counted, and evicted only if they are old.
        limit_bytes: Most bytes; None for half of the disk.
        free_bytes: Bytes of the disk to leave free; None for 20 GiB, or a tenth of a smaller disk.
    """

    def __init__(
        self,
        blocks: PrivateFolder,
        files: PrivateFolder,
        *,
        limit_bytes: int | None = None,
        free_bytes: int | None = None,
    ) -> None:
        disk = os.fstatvfs(blocks.fd)
        disk_bytes = disk.f_blocks * disk.f_frsize
        self.limit_bytes = disk_bytes // 2 if limit_bytes is None else limit_bytes
        self._free_bytes = min(_MOST_FREE_BYTES, disk_bytes // 10) if free_bytes is None else free_bytes
        self._blocks = blocks
        self._files = files
        self._lock = threading.Lock()
        self._counted: int | None = None  # bytes of all files when they were counted
        self._added = 0  # bytes that this process reserved since then
        self._pending = 0  # reserved bytes that are not in a file with a name

    def reserve(self, size_bytes: int) -> bool:
        """Reserve bytes before they are written; evict other files if needed.

        Returns:
            False if there is no room.
        """
        with self._lock:
            if size_bytes > self.limit_bytes:
                return False
            if not self._has_room(size_bytes):
                return False
            self._added += size_bytes
            self._pending += size_bytes
            return True

    def written(self, size_bytes: int) -> None:
        with self._lock:
            self._pending -= size_bytes

    def cancel(self, size_bytes: int) -> None:
        with self._lock:
            self._pending -= size_bytes
            self._added -= size_bytes

    def _has_room(self, size_bytes: int) -> bool:
        if self._counted is None or self._lacking(size_bytes) > 0 or self._added + size_bytes > _UNSEEN_BYTES:
            self._count()
        for _ in range(_ROUNDS):
            lacking = self._lacking(size_bytes)
            if lacking <= 0:
                return True
            evicted = self._evict(lacking + self.limit_bytes // _EVICTED_SHARE)
            self._count()
            if evicted >= lacking:  # others may have filled the room, but evicted others for it
                return True
        return False

    def _lacking(self, size_bytes: int) -> int:
        """Return the bytes to evict so that some more fit."""
        disk = os.fstatvfs(self._blocks.fd)
        of_limit = (self._counted or 0) + self._added + size_bytes - self.limit_bytes
        of_disk = self._free_bytes + size_bytes - disk.f_bavail * disk.f_frsize
        return max(of_limit, of_disk)

    def _count(self) -> None:
        remove_old_partials(self._blocks)
        remove_old_partials(self._files)
        total = 0
        for folder in (self._blocks, self._files):
            for name in folder.names():
                size = size_of(name)
                if size is None:
                    status = folder.status(name)
                    size = 0 if status is None else status.st_size
                total += size
        self._counted, self._added = total, self._pending

    def _evict(self, wanted_bytes: int) -> int:
        """Remove files, those used last a long time ago first; return their bytes."""
        evicted = 0
        for folder, name, size_bytes in self._oldest_first():
            if evicted >= wanted_bytes:
                break
            if folder.remove(name):
                evicted += size_bytes
        return evicted

    def _oldest_first(self) -> Iterator[tuple[PrivateFolder, str, int]]:
        for folder, max_time_s in ((self._blocks, None), (self._files, time.time() - _COPY_AGE_S)):
            found = []
            for name in folder.names():
                status = folder.status(name)
                if status is not None and not name.endswith(PARTIAL):
                    found.append((status.st_mtime_ns, name, status.st_size))
            for mtime_ns, name, size_bytes in sorted(found):
                if max_time_s is None or mtime_ns < max_time_s * 1e9:
                    yield folder, name, size_bytes


def remove_old_partials(folder: PrivateFolder) -> None:
    """Remove what killed processes left on file systems where files need a name while they are written."""
    for name in list(folder.names()):
        if name.endswith(PARTIAL):
            status = folder.status(name)
            if status is not None and status.st_mtime < time.time() - _PARTIAL_AGE_S:
                folder.remove(name)
