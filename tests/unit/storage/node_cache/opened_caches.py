"""Caches of tests, each as another process would open it, and objects to read through them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader.storage.node_cache import node_cache
from loader.storage.node_cache.block_cache import BlockCache, RemoteObject
from loader.storage.node_cache.private_folder import CacheSettings

OpenCache = Callable[..., BlockCache]


class FakeObject:
    """An object of random bytes, which counts what is fetched of it."""

    def __init__(self, number: int, size_bytes: int) -> None:
        self.data = random.Random(number).randbytes(size_bytes)
        self.source = RemoteObject("https://host\0s3://bucket/object", f"v{number}", size_bytes)
        self.fetched: list[tuple[int, int]] = []

    def fetch(self, start: int, stop: int) -> bytes:
        self.fetched.append((start, stop))
        return self.data[start:stop]

    def read(self, cache: BlockCache, start: int = 0, stop: int | None = None) -> None:
        """Read a range, and compare it."""
        stop = len(self.data) if stop is None else stop
        assert cache.read(self.source, start, stop, self.fetch) == self.data[start:stop]

    @property
    def fetched_bytes(self) -> int:
        return sum(stop - start for start, stop in self.fetched)


def open_cache(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> BlockCache:
    """Open the cache in a folder as a new process does; a tenth of the disk need not be free."""
    monkeypatch.setattr(node_cache, "_caches", {})
    cache = node_cache.block_cache(CacheSettings(folder=str(folder), **{"free_bytes": 0, **settings}))
    assert cache is not None
    return cache


def block_files(folder: Path) -> list[Path]:
    """Return the files of blocks in a cache."""
    (own,) = folder.glob("energon-cache-*")
    return sorted((own / "blocks").iterdir())


def size_of(folder: Path) -> int:
    """Return the bytes of all blocks."""
    return sum(path.stat().st_size for path in block_files(folder))
