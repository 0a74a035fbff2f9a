"""The interface of cache pools, their lazies, and the pool that caches nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from .file_store import FileStore, add_source

T = TypeVar("T")


class CachePool(ABC):
    """Reads files of stores, now or later.

    A pool is pickled as its arguments; each process has its own files and threads.

    >>> pool: CachePool = NoCachePool()
    >>> pool.get(SystemFileStore("."), "note.txt")
    b'a note'
    """

    @abstractmethod
    def get(self, ds: FileStore[T], fname: str, sample: Any = None) -> T:
        """Return the value of a file now.

        Args:
            ds: The store.
            fname: Key of the file in the store.
            sample: The sample that uses the value; the file's source is appended to its ``__sources__``.

        Raises:
            KeyError: The file does not exist.
        """

    @abstractmethod
    def get_lazy(self, ds: FileStore[T], fname: str) -> Lazy[T]:
        """Request a file for later use, without waiting for it. An error of the file is raised by :meth:`Lazy.get`.

        Args:
            ds: The store.
            fname: Key of the file in the store.
        """

    @abstractmethod
    def to_cache(self, data: T, name: str) -> Lazy[T]:
        """Store a value for later use.

        Args:
            data: The value.
            name: Name of the value, for messages.
        """

    def worker_init(self) -> None:  # noqa: B027 - not abstract: few pools need it
        """Prepare the pool for a worker; called in its process or thread before its first micro-batch."""

    def worker_close(self) -> None:  # noqa: B027 - as above
        """Release what the pool has opened for a worker; called when the worker ends."""

    @abstractmethod
    def close(self) -> None:
        """Stop fetching and free the disk; lazies that still exist read their files from the stores."""


@dataclass(kw_only=True, slots=True, eq=False)
class Lazy(Generic[T]):
    """A file of a store that is read by :meth:`get`. Lazies of the same file are equal.

    A lazy may be pickled, or sent to another process in a batch; there :meth:`get` reads the file from the store.

    Args:
        ds: The store.
        fname: Key of the file in the store.
        pool: The pool that made this lazy.

    >>> lazy: Lazy = NoCachePool().get_lazy(SystemFileStore("."), "note.txt")
    >>> lazy.get()
    b'a note'
    """

    ds: FileStore[T]
    fname: str
    pool: CachePool

    def get(self, sample: Any = None) -> T:
        """Return the value of the file; each call returns the same object.

        Args:
            sample: The sample that uses the value; the file's source is appended to its ``__sources__``.

        Raises:
            KeyError: The file does not exist.
        """
        return self.ds.get(self.fname, sample)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lazy) and self.fname == other.fname and self.ds == other.ds

    def __hash__(self) -> int:
        return hash((self.ds, self.fname))


@dataclass(kw_only=True, slots=True, eq=False)
class DirectLazy(Lazy[T]):
    """A lazy that reads its file in :meth:`get`, in the calling thread.

    >>> NoCachePool().get_lazy(SystemFileStore("."), "note.txt").get()
    b'a note'
    """

    _data: tuple[T, Any] | None = None

    def get(self, sample: Any = None) -> T:
        if self._data is None:
            self._data = self._read()
        value, source = self._data
        if sample is not None:
            add_source(sample, source)
        return value

    def _read(self) -> tuple[T, Any]:
        return self.ds[self.fname]

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the value: a batch with the lazy often has the value too.
        return partial(type(self), ds=self.ds, fname=self.fname, pool=self.pool), ()


@dataclass(slots=True, eq=False, init=False)
class MockLazy(Lazy[T]):
    """A lazy that calls a function: for tests, and for values in memory.

    Args:
        fname: Argument of the function.
        get_fn: Function that makes the value, called by each :meth:`get`.

    >>> MockLazy("a.txt", str.upper).get()
    'A.TXT'
    """

    get_fn: Callable[[str], T]

    def __init__(self, fname: str, get_fn: Callable[[str], T]) -> None:
        self.ds = cast("FileStore[T]", None)
        self.pool = cast("CachePool", None)
        self.fname = fname
        self.get_fn = get_fn

    def get(self, sample: Any = None) -> T:  # noqa: ARG002 - it has no source
        return self.get_fn(self.fname)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MockLazy) and (self.fname, self.get_fn) == (other.fname, other.get_fn)

    def __hash__(self) -> int:
        return hash((MockLazy, self.fname))


class NoCachePool(CachePool):
    """Reads each file in :meth:`Lazy.get`, and keeps stored values in memory.

    >>> NoCachePool().to_cache([1, 2], "numbers").get()
    [1, 2]
    """

    def get(self, ds: FileStore[T], fname: str, sample: Any = None) -> T:
        return ds.get(fname, sample)

    def get_lazy(self, ds: FileStore[T], fname: str) -> DirectLazy[T]:
        store, key = ds.origin(fname)
        return DirectLazy(ds=store, fname=key, pool=self)

    def to_cache(self, data: T, name: str) -> Lazy[T]:
        return held(name, data)

    def close(self) -> None:
        """Do nothing, because nothing is open."""

    def __repr__(self) -> str:
        return "NoCachePool()"


def held(name: str, value: T) -> Lazy[T]:
    """Return a lazy that holds its value in memory, and pickles with it."""
    return MockLazy(name, {name: value}.__getitem__)
