"""A store that notes who reads what, and waits where a test wants it to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from loader import SourceInfo
from loader.stores import FileStore


class RecordingStore(FileStore[bytes]):
    """Give ``size`` bytes for each key, always the same; note each key and the thread that read it."""

    def __init__(self, size: int = 1000) -> None:
        self.size = size
        self.read: list[str] = []
        self.threads: list[str] = []
        self.hold = threading.Event()  # cleared: reading waits
        self.hold.set()

    def __getstate__(self) -> int:
        return self.size

    def __setstate__(self, size: int) -> None:
        self.__init__(size)

    def __getitem__(self, key: str) -> tuple[bytes, SourceInfo]:
        self.read.append(key)
        self.threads.append(threading.current_thread().name)
        assert self.hold.wait(30)
        if key.startswith("bad"):
            raise ValueError(f"{key} is bad") from OSError("the cause")
        return content(key, self.size), SourceInfo("store", key, None, (key,))


def content(key: str, size: int = 1000) -> bytes:
    return (key.encode() * (size // len(key) + 1))[:size]


def wait_until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.005)
