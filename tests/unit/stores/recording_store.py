"""A store for tests that records its reads and can hold them back."""

from __future__ import annotations

import threading

from loader import SourceInfo
from loader.stores import FileStore


class RecordingStore(FileStore[bytes]):
    """Returns the same ``size`` bytes for a key each time, and records each key and the thread that reads it."""

    def __init__(self, size: int = 1000) -> None:
        self.size = size
        self.read: list[str] = []
        self.threads: list[str] = []
        self.hold = threading.Event()  # while cleared, reads wait
        self.hold.set()

    def __getstate__(self) -> int:
        return self.size

    def __setstate__(self, size: int) -> None:
        RecordingStore.__init__(self, size)

    def __getitem__(self, key: str) -> tuple[bytes, SourceInfo]:
        self.read.append(key)
        self.threads.append(threading.current_thread().name)
        assert self.hold.wait(30)
        if key.startswith("bad"):
            raise ValueError(f"{key} is bad") from OSError("the cause")
        return content(key, self.size), SourceInfo("store", key, None, (key,))


def content(key: str, size: int = 1000) -> bytes:
    return (key.encode() * (size // len(key) + 1))[:size]
