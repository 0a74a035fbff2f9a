"""Shards kept open, as many as the process may hold."""

from __future__ import annotations

import resource

from ...storage import ReadableFile

__all__ = ["OpenShards"]

_MOST = 4096  # more than a run reads from at a time
_SHARE = 4  # a quarter of what the process may open is for shards: torch passes tensors as files


class OpenShards:
    """Open files, each by a number for its leaf and shard; the one that was opened first is closed for one too many.

    Args:
        most: How many are kept open; by default a quarter of what the process may open.
    """

    def __init__(self, most: int | None = None) -> None:
        if most is None:
            most = min(_MOST, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE))
        self._most = most
        self._files: dict[int, ReadableFile] = {}
        self.find = self._files.get
        """Give the open file of a number; None where it is not open."""

    def add(self, name: int, file: ReadableFile) -> ReadableFile:
        """Keep an open file, and give it back."""
        while len(self._files) >= self._most:
            self._files.pop(next(iter(self._files))).close()
        self._files[name] = file
        return file

    def close(self) -> None:
        """Close all."""
        while self._files:
            self._files.popitem()[1].close()
