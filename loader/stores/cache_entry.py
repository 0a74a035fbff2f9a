"""One file in the cache of a process: its state, and the reading, serializing and decoding of it."""

from __future__ import annotations

import pickle
from enum import Enum, auto
from typing import Any, Protocol

from ..errors import EnergonError
from ..samples.source_info import SourceInfo
from .file_store import FileStore
from .scratch_file import Extent

Fetched = tuple[Any, SourceInfo | None]
"""A file as its store returned it, raw or decoded, and its source."""


class EntryState(Enum):
    """Progress of a file into the cache."""

    QUEUED = auto()
    FETCHING = auto()
    CACHED = auto()  # its bytes are in the scratch file
    DIRECT = auto()  # not cached: each lazy fetches it


class _Fetcher(Protocol):
    """The fetcher of an entry, as lazies use it."""

    def take(self, entry: CacheEntry) -> Fetched: ...
    def drop(self, entry: CacheEntry) -> None: ...


class CacheEntry:
    """A file that lazies of this process refer to, or a stored value.

    Args:
        fetcher: The fetcher of the entry.
        key: Store and key of the file; None for a value.
        keeps_value: Cache the decoded value, as a pickle; else the raw file.
    """

    __slots__ = (
        "error", "extent", "fetched", "fetcher", "is_pickle", "keeps_value", "key", "lazies", "source", "state",
        "waiters",
    )  # fmt: skip

    def __init__(self, fetcher: _Fetcher, key: tuple[FileStore[Any], str] | None, *, keeps_value: bool) -> None:
        self.fetcher = fetcher
        self.key = key
        self.keeps_value = keeps_value
        self.lazies = 1  # lazies that refer to it and have not taken it yet
        self.waiters = 0  # threads that wait for it
        self.state = EntryState.QUEUED
        self.extent: Extent | None = None
        self.is_pickle = False
        self.source: SourceInfo | None = None
        self.error: BaseException | None = None  # raised by the fetching thread, for the first lazy that takes it
        self.fetched: Fetched | None = None  # set only if threads wait and the cache has no space

    def read_store(self) -> Fetched:
        """Read the file from its store, decoded if the cache keeps values.

        Raises:
            Exception: The error of the store.
            EnergonError: The entry is a value, and this process is a fork of the one that stored it.
        """
        if self.key is None:
            raise EnergonError(
                "a value of a cache pool was requested in a fork of the process that stored it",
                hint="get it before forking, or keep it in memory",
            )
        store, fname = self.key
        return store[fname] if self.keeps_value else store.read_raw(fname)

    def to_bytes(self, value: Any) -> bytes:
        """Serialize a raw file or a value for the cache.

        Raises:
            Exception: The value does not pickle.
        """
        if type(value) is bytes:
            return value
        self.is_pickle = True
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)

    def read_cache(self, extent: Extent) -> Fetched:
        """Read the cached file or value, and its source."""
        data = extent.read()
        # Only this process can write to the file: it has no name.
        return pickle.loads(data) if self.is_pickle else data, self.source  # noqa: S301

    def value_of(self, raw: Any) -> Any:
        """Decode a raw file."""
        if self.keeps_value or self.key is None:
            return raw
        store, fname = self.key
        return store.decode_raw(fname, raw)
