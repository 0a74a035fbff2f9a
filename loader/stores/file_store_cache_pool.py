"""The cache pool that fetches files ahead to a local disk."""

from __future__ import annotations

import os
import tempfile
import weakref
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, get_args

from ..errors import ConfigError, Fault
from .cache_fetcher import CacheEntry, CacheFetcher, CacheLimits
from .cache_pool import CachePool, DirectLazy, Lazy, T, held
from .file_store import FileStore

Method = Literal["raw", "pickle"]


class FileStoreCachePool(CachePool):
    """Fetches files ahead in background threads to a fast local disk, so that samples do not wait for slow storage.

    :meth:`get_lazy` queues a file and returns at once. Threads fetch the files in that order, and cache each until its
    last lazy is used or dropped. A file with several lazies is fetched once. If a limit is reached the threads pause
    until space is freed; a file that is needed before its turn is fetched at once, by the thread that needs it.

    The cache is in files without names, which only this process can read and which disappear with it, however it ends.
    If the disk is full, files are read when they are needed, and the pool logs one warning.

    A forked or spawned process with a copy of the pool has its own threads and files.

    Args:
        parent_cache_dir: A folder on the local disk, created if it is missing. None takes the folder of temporary files
            (``$TMPDIR``).
        num_workers: Number of threads.
        max_cache_size_gbytes: Largest size of the files in the cache of each process, in GiB.
        max_cache_count: Largest number of files in the cache of each process.
        method: ``"raw"`` caches files as stored, and :meth:`Lazy.get` decodes them; ``"pickle"`` decodes in the threads
            and caches the values.

    Attributes:
        max_cache_size: The same size in bytes. This limit and ``max_cache_count`` may be set, also while files wait.

    Raises:
        ConfigError: An argument is out of its range.
        StorageError: No file can be created in the folder.

    >>> pool = FileStoreCachePool(num_workers=1)
    >>> lazy = pool.get_lazy(SystemFileStore("."), "note.txt")
    >>> lazy.get()
    b'a note'
    >>> pool.close()
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
        # Name all faulty arguments at once.
        faults = [
            Fault(place=name, message=f"expected {expected}, found {value!r}")
            for name, value, is_valid, expected in (
                ("num_workers", num_workers, num_workers >= 1, "at least 1"),
                ("max_cache_size_gbytes", max_cache_size_gbytes, max_cache_size_gbytes > 0, "more than 0"),
                ("max_cache_count", max_cache_count, max_cache_count >= 1, "at least 1"),
                ("method", method, method in get_args(Method), "'raw' or 'pickle'"),
            )
            if not is_valid
        ]
        if faults:
            raise ConfigError(faults=faults)
        self.parent_cache_dir = None if parent_cache_dir is None else Path(parent_cache_dir)
        self.num_workers = num_workers
        self.method: Method = method
        self._fetchers: dict[int, CacheFetcher] = {}
        self._limits = CacheLimits(int(max_cache_size_gbytes * (1 << 30)), max_cache_count)

    @property
    def fetcher(self) -> CacheFetcher:
        """The fetcher of this process, created on first use because threads do not survive a fork."""
        pid = os.getpid()
        fetcher = self._fetchers.get(pid)
        if fetcher is None:
            new = CacheFetcher(
                self.cache_dir, self._limits, num_workers=self.num_workers, keeps_values=self.method == "pickle"
            )
            fetcher = self._fetchers.setdefault(pid, new)  # no lock: a fork may copy it while another thread holds it
            if fetcher is new:
                weakref.finalize(self, new.stop)  # also at the end of the program
            for other in self._fetchers.keys() - {pid}:
                del self._fetchers[other]
        return fetcher

    @property
    def cache_dir(self) -> Path:
        """Folder whose disk holds the cache. The cache has no name in it."""
        return self.parent_cache_dir or Path(tempfile.gettempdir())

    @property
    def max_cache_size(self) -> int:
        """Largest size of the files in this process's cache, in bytes."""
        return self._limits.max_bytes

    @max_cache_size.setter
    def max_cache_size(self, size_bytes: int) -> None:
        self._set_limits(size_bytes, self._limits.max_count)

    @property
    def max_cache_size_gbytes(self) -> float:
        """The same size in GiB."""
        return self._limits.max_bytes / (1 << 30)

    @max_cache_size_gbytes.setter
    def max_cache_size_gbytes(self, size: float) -> None:
        self.max_cache_size = int(size * (1 << 30))

    @property
    def max_cache_count(self) -> int:
        """Largest number of files in this process's cache."""
        return self._limits.max_count

    @max_cache_count.setter
    def max_cache_count(self, count: int) -> None:
        self._set_limits(self._limits.max_bytes, count)

    def _set_limits(self, size_bytes: int, count: int) -> None:
        if min(size_bytes, count) < 1:
            raise ConfigError(f"expected limits of at least 1 byte and 1 file, found {size_bytes} and {count}")
        self._limits.max_bytes, self._limits.max_count = size_bytes, count

    @property
    def current_cache_size(self) -> int:
        """Size of the files in this process's cache, in bytes."""
        fetcher = self._fetchers.get(os.getpid())
        return 0 if fetcher is None else fetcher.size_bytes

    @property
    def current_cache_count(self) -> int:
        """Number of files in this process's cache."""
        fetcher = self._fetchers.get(os.getpid())
        return 0 if fetcher is None else fetcher.count

    def get(self, ds: FileStore[T], fname: str, sample: Any = None) -> T:
        return ds.get(fname, sample)

    def get_lazy(self, ds: FileStore[T], fname: str) -> FileCacheLazy[T]:
        store, key = ds.origin(fname)
        return FileCacheLazy(ds=store, fname=key, pool=self, entry=self.fetcher.request(store, key))

    def to_cache(self, data: T, name: str) -> Lazy[T]:
        """Store a value on the disk for later use; in memory if there is no space or the value does not pickle."""
        entry = self.fetcher.store_value(data)
        return held(name, data) if entry is None else CacheFileLazy(name, entry, self)

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
class FileCacheLazy(DirectLazy[T]):
    """A file that is fetched ahead. Its disk space is freed once all its lazies are used or dropped.

    Attributes:
        cache_path: Always None, because the cached bytes have no file name: :meth:`get` returns the value.

    >>> pool = FileStoreCachePool(num_workers=1)
    >>> lazies = [pool.get_lazy(DatasetFileStore("photos"), f"000{number}.txt") for number in range(3)]
    >>> [lazy.get() for lazy in lazies]
    [b'a cat', b'a dog', b'two cats']
    >>> pool.close()
    """

    cache_path: ClassVar[None] = None

    entry: CacheEntry | None = None

    def _read(self) -> tuple[T, Any]:
        entry, self.entry = self.entry, None
        if entry is None:
            return self.ds[self.fname]  # the pool is full, this lazy was pickled, or an earlier get() failed
        try:
            return entry.fetcher.take(entry)
        finally:
            entry.fetcher.drop(entry)

    def __del__(self) -> None:
        if self.entry is not None:
            self.entry.fetcher.drop(self.entry)


class CacheFileLazy(Lazy[T]):
    """A value that is stored on the disk.

    Attributes:
        cache_path: Always None, because the cached bytes have no file name: :meth:`get` returns the value.
    """

    __slots__ = ("_entry", "_value")

    cache_path: ClassVar[None] = None

    def __init__(self, name: str, entry: CacheEntry, pool: CachePool) -> None:
        self.ds = cast("FileStore[T]", None)
        self.fname = name
        self.pool = pool
        self._entry: CacheEntry | None = entry
        self._value: T | None = None

    def get(self, sample: Any = None) -> T:  # noqa: ARG002 - it has no source
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
        return held, (self.fname, self.get())
