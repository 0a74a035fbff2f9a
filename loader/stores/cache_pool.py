"""The interface of cache pools: what gets files, now or later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from .file_store import FileStore

if TYPE_CHECKING:
    from .lazy import Lazy  # which names its pool

__all__ = ["CachePool"]

T = TypeVar("T")


class CachePool(ABC):
    """Gets files of stores, now or later. A pool pickles as its arguments; each process works with its own."""

    @abstractmethod
    def get(self, ds: FileStore[T], fname: str, sample: Any = None) -> T:
        """Get a file's value now.

        Args:
            ds: The store.
            fname: The file's key in it.
            sample: The sample that it becomes part of; where the file was found is appended to its ``__sources__``.

        Raises:
            KeyError: There is no such file.
        """

    @abstractmethod
    def get_lazy(self, ds: FileStore[T], fname: str) -> Lazy[T]:
        """Say that a file will be needed. Never waits, and never raises what is wrong with the file.

        Args:
            ds: The store.
            fname: The file's key in it.
        """

    @abstractmethod
    def to_cache(self, data: T, name: str) -> Lazy[T]:
        """Put a value away until it is needed.

        Args:
            data: The value.
            name: What to call it.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop fetching and give all room back; lazies that are still there fetch their files by themselves."""
