"""An open file for tests that log or count what is done with it."""

from __future__ import annotations

from loader.storage.protocol import ReadableFile


class StubFile(ReadableFile):
    """An empty open file; subclasses override the methods that a test observes."""

    size_bytes = 0

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        return b""

    def close(self) -> None:
        return None
