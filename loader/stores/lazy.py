"""A file that is got when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from ..samples.source_info import SourceInfo
from .cache_pool import CachePool
from .file_store import FileStore, add_source

__all__ = ["DirectLazy", "Lazy", "MockLazy"]

T = TypeVar("T")


@dataclass(kw_only=True, slots=True, eq=False)
class Lazy(Generic[T]):
    """Stands for a file of a store until :meth:`get` is called. Two are equal if they stand for the same file.

    One may be pickled, or travel to another process in a batch: there it fetches the file by itself.

    Args:
        ds: The store.
        fname: The file's key in it.
        pool: What made this one.
    """

    ds: FileStore[T]
    fname: str
    pool: CachePool

    def get(self, sample: Any = None) -> T:
        """Get the file's value; the same object at each further call.

        Args:
            sample: The sample that it becomes part of; where the file was found is appended to its ``__sources__``.

        Raises:
            KeyError: There is no such file.
        """
        return self.ds.get(self.fname, sample)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lazy) and self.fname == other.fname and self.ds == other.ds

    def __hash__(self) -> int:
        return hash((self.ds, self.fname))


@dataclass(kw_only=True, slots=True, eq=False)
class DirectLazy(Lazy[T]):
    """Fetches its file when it is got, in the thread that asks."""

    _data: tuple[T, SourceInfo] | None = None

    def get(self, sample: Any = None) -> T:
        if self._data is None:
            self._data = self.ds[self.fname]
        value, source = self._data
        if sample is not None:
            add_source(sample, source)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        # What was got is not sent along: a batch often holds it beside the lazy.
        return _direct_lazy, (self.ds, self.fname, self.pool)


def _direct_lazy(ds: FileStore[T], fname: str, pool: CachePool) -> DirectLazy[T]:
    return DirectLazy(ds=ds, fname=fname, pool=pool)


@dataclass(slots=True, eq=False, init=False)
class MockLazy(Lazy[T]):
    """Stands for what a function gives: for tests, and for values that are there already.

    Args:
        fname: What the function is given.
        get_fn: Makes the value, at each :meth:`get`.

    >>> MockLazy("a.txt", str.upper).get()
    'A.TXT'
    """

    get_fn: Callable[[str], T]

    def __init__(self, fname: str, get_fn: Callable[[str], T]) -> None:
        self.ds = cast("FileStore[T]", None)
        self.pool = cast("CachePool", None)
        self.fname = fname
        self.get_fn = get_fn

    def get(self, sample: Any = None) -> T:  # noqa: ARG002 - it is from no file
        return self.get_fn(self.fname)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MockLazy) and (self.fname, self.get_fn) == (other.fname, other.get_fn)

    def __hash__(self) -> int:
        return hash((MockLazy, self.fname))
