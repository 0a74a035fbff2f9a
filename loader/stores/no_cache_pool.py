"""The pool that fetches nothing ahead."""

from __future__ import annotations

from typing import Any, TypeVar

from .cache_pool import CachePool
from .file_store import FileStore
from .held_value import HeldValue
from .lazy import DirectLazy, Lazy, MockLazy

__all__ = ["NoCachePool"]

T = TypeVar("T")


class NoCachePool(CachePool):
    """Fetch each file when its lazy is got, and keep values that are put away in memory.

    >>> NoCachePool().to_cache([1, 2], "numbers").get()
    [1, 2]
    """

    def get(self, ds: FileStore[T], fname: str, sample: Any = None) -> T:
        return ds.get(fname, sample)

    def get_lazy(self, ds: FileStore[T], fname: str) -> DirectLazy[T]:
        store, key = ds.origin(fname)
        return DirectLazy(ds=store, fname=key, pool=self)

    def to_cache(self, data: T, name: str) -> Lazy[T]:
        return MockLazy(name, HeldValue(data))

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""

    def __repr__(self) -> str:
        return "NoCachePool()"
