"""An open file for tests that log or count what is done with it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from loader.storage.protocol import ReadableFile


class StubFile(ReadableFile):
    """An empty open file; subclasses override the methods that a test observes."""

    size_bytes = 0

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        return b""

    def expect(self, offset: int, size_bytes: int) -> None:
        return None

    def close(self) -> None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
