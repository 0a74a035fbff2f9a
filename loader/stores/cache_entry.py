"""What a cache pool knows of one file."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from ..samples.source_info import SourceInfo
from .file_store import FileStore
from .scratch_file import Extent

if TYPE_CHECKING:
    from .cache_fetcher import CacheFetcher  # which makes these

__all__ = ["CacheEntry", "EntryState", "Fetched"]

Fetched = tuple[Any, SourceInfo | None]
"""What a store gave, or its value, and where it was found."""


class EntryState(Enum):
    """How far a file is on its way into the cache."""

    QUEUED = auto()
    FETCHING = auto()
    CACHED = auto()  # its bytes are in the scratch file
    DIRECT = auto()  # nothing is kept: whoever wants it fetches it


class CacheEntry:
    """A file that some lazies of this process stand for, or a value that was put away."""

    __slots__ = ("error", "extent", "fetched", "fetcher", "is_pickle", "key", "lazies", "source", "state", "takers")

    def __init__(self, fetcher: CacheFetcher, key: tuple[FileStore[Any], str] | None) -> None:
        self.fetcher = fetcher
        self.key = key
        self.lazies = 1  # that stand for it and were not got yet
        self.takers = 0  # threads that wait for it
        self.state = EntryState.QUEUED
        self.extent: Extent | None = None
        self.is_pickle = False
        self.source: SourceInfo | None = None
        self.error: BaseException | None = None  # of the thread, for the first who takes it
        self.fetched: Fetched | None = None  # only while takers wait, and there is no room
