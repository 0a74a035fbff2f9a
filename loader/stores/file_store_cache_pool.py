"""The pool that fetches files ahead to a local disk."""

from __future__ import annotations

import os
import tempfile
import weakref
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from ..errors import ConfigError, Fault
from .cache_entry import CacheEntry
from .cache_fetcher import CacheFetcher
from .cache_pool import CachePool
from .file_store import FileStore, add_source
from .held_value import HeldValue
from .lazy import Lazy, MockLazy

__all__ = ["FileCacheLazy", "FileStoreCachePool"]

T = TypeVar("T")

Method = Literal["raw", "pickle"]


class FileStoreCachePool(CachePool):
    """Fetch files ahead in background threads, to a fast local disk, so that slow storage is not waited for.

    :meth:`get_lazy` queues a file and returns at once; threads fetch the files in that order and keep them on the disk
    until their last lazy was got or dropped. One file that several lazies stand for is fetched once. Nothing waits for
    room: where a limit is reached the threads pause, and a file that is wanted before its turn is fetched at once.

    What is kept lies in files without names, which only this process can read; they vanish with it, however it ends.
    Where the disk is full, files are fetched when they are got, and one warning says so.

    A forked or spawned process that is given the pool works with threads and files of its own.

    Args:
        parent_cache_dir: A folder on the disk; it is made if it is not there. None takes that of temporary files
            (``$TMPDIR``).
        num_workers: How many threads fetch.
        max_cache_size_gbytes: How much of the disk is taken at most by each process, in GiB.
        max_cache_count: How many files each process fetches ahead at most.
        method: ``"raw"`` keeps what the store reads, and decodes it in :meth:`Lazy.get`; ``"pickle"`` decodes in the
            threads, and keeps the values.

    Raises:
        ConfigError: An argument is out of its range.
        StorageError: No file can be made in the folder.
    """

    def __init__(
        self,
        *,
        parent_cache_dir: str | os.PathLike[str] | None = None,
        num_workers: int = 8,
        max_cache_size_gbytes: float = 1024,
        max_cache_count: int = 10_000_000,
        method: Method = "raw",
    ) -> None:
        faults = [
            Fault(place=name, found=f"expected {expected}, found {value!r}")
            for name, value, is_right, expected in (
                ("num_workers", num_workers, num_workers >= 1, "at least 1"),
                ("max_cache_size_gbytes", max_cache_size_gbytes, max_cache_size_gbytes > 0, "more than 0"),
                ("max_cache_count", max_cache_count, max_cache_count >= 1, "at least 1"),
                ("method", method, method in get_args(Method), "'raw' or 'pickle'"),
            )
            if not is_right
        ]
        if faults:
            raise ConfigError(faults=faults)
        self.parent_cache_dir = None if parent_cache_dir is None else Path(parent_cache_dir)
        self.num_workers = num_workers
        self.max_cache_size_gbytes = max_cache_size_gbytes
        self.max_cache_count = max_cache_count
        self.method: Method = method
        self._fetchers: dict[int, CacheFetcher] = {}

    @property
    def fetcher(self) -> CacheFetcher:
        """What fetches in this process; made when it is first asked for, since threads do not survive a fork."""
        pid = os.getpid()
        found = self._fetchers.get(pid)
        if found is None:
            mine = CacheFetcher(
                self.parent_cache_dir or Path(tempfile.gettempdir()),
                num_workers=self.num_workers,
                max_bytes=int(self.max_cache_size_gbytes * (1 << 30)),
                max_count=self.max_cache_count,
                keeps_values=self.method == "pickle",
            )
            found = self._fetchers.setdefault(pid, mine)  # without a lock, which a fork may copy while it is held
            if found is mine:
                weakref.finalize(self, mine.stop)  # also at the end of the program
            for other in self._fetchers.keys() - {pid}:
                del self._fetchers[other]
        return found

    def get(self, ds: FileStore[T], fname: str, sample: Any = None) -> T:
        return ds.get(fname, sample)

    def get_lazy(self, ds: FileStore[T], fname: str) -> FileCacheLazy[T]:
        store, key = ds.origin(fname)
        return FileCacheLazy(ds=store, fname=key, pool=self, entry=self.fetcher.want(store, key))

    def to_cache(self, data: T, name: str) -> Lazy[T]:
        """Put a value on the disk until it is needed; in memory where there is no room, or it does not pickle."""
        entry = self.fetcher.keep(data)
        return MockLazy(name, HeldValue(data)) if entry is None else _ValueLazy(name, entry, self)

    def close(self) -> None:
        fetcher = self._fetchers.pop(os.getpid(), None)
        if fetcher is not None:
            fetcher.stop()

    def __reduce__(self) -> tuple[Any, ...]:
        options = ("parent_cache_dir", "num_workers", "max_cache_size_gbytes", "max_cache_count", "method")
        return partial(type(self), **{name: getattr(self, name) for name in options}), ()

    def __repr__(self) -> str:
        return f"FileStoreCachePool(parent_cache_dir={self.parent_cache_dir}, method={self.method!r})"


@dataclass(kw_only=True, slots=True, eq=False)
class FileCacheLazy(Lazy[T]):
    """A file that is being fetched. Its place on the disk is free when this was got, or is dropped."""

    entry: CacheEntry | None
    _data: tuple[T, Any] | None = None

    def get(self, sample: Any = None) -> T:
        if self._data is None:
            self._data = self._taken()
        value, source = self._data
        if sample is not None:
            add_source(sample, source)
        return value

    def _taken(self) -> tuple[T, Any]:
        entry, self.entry = self.entry, None
        if entry is None:
            return self.ds[self.fname]  # the count was reached, or this was pickled, or got before
        try:
            return entry.fetcher.take(entry)
        finally:
            entry.fetcher.drop(entry)

    def __del__(self) -> None:
        if self.entry is not None:
            self.entry.fetcher.drop(self.entry)

    def __reduce__(self) -> tuple[Any, ...]:
        # What was got is not sent along: a batch often holds it beside the lazy.
        return _lazy_without_entry, (self.ds, self.fname, self.pool)


def _lazy_without_entry(ds: FileStore[T], fname: str, pool: CachePool) -> FileCacheLazy[T]:
    return FileCacheLazy(ds=ds, fname=fname, pool=pool, entry=None)


class _ValueLazy(Lazy[T]):
    """A value that lies on the disk."""

    __slots__ = ("_entry", "_value")

    def __init__(self, name: str, entry: CacheEntry, pool: CachePool) -> None:
        self.ds = cast("FileStore[T]", None)
        self.fname = name
        self.pool = pool
        self._entry: CacheEntry | None = entry
        self._value: T | None = None

    def get(self, sample: Any = None) -> T:  # noqa: ARG002 - it is from no file
        entry = self._entry
        if entry is not None:
            self._value = entry.fetcher.take(entry)[0]
            self._entry = None
            entry.fetcher.drop(entry)
        return cast("T", self._value)

    def __del__(self) -> None:
        if self._entry is not None:
            self._entry.fetcher.drop(self._entry)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return MockLazy, (self.fname, HeldValue(self.get()))
