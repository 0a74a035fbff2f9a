"""The store of the dataset that a sample is from, where ``.part`` is a part of that sample."""

from __future__ import annotations

from typing import Any, TypeVar

from ..format.media_metadata import MediaMetadata
from ..samples.source_info import SourceInfo
from .file_store import FileStore

__all__ = ["PrimaryFileStore"]

T_co = TypeVar("T_co", covariant=True)


class PrimaryFileStore(FileStore[T_co]):
    """Give the parts of the current sample as ``.jpg``, and those of others by their whole keys.

    Args:
        inner: The store of the dataset.
        current_key: The ``__key__`` of the current sample.

    ``PrimaryFileStore(store, "shard_0.tar/0001")[".jpg"]`` is ``store["shard_0.tar/0001.jpg"]``.
    """

    __slots__ = ("current_key", "inner")

    def __init__(self, inner: FileStore[T_co], current_key: str) -> None:
        self.inner = inner
        self.current_key = current_key

    def _whole(self, key: str) -> str:
        return self.current_key + key if key.startswith(".") else key

    def __getitem__(self, key: str) -> tuple[T_co, SourceInfo]:
        return self.inner[self._whole(key)]

    def get_path(self) -> str:
        return self.inner.get_path()

    def get_media_metadata(self, key: str) -> MediaMetadata:
        return self.inner.get_media_metadata(self._whole(key))

    def read_raw(self, key: str) -> tuple[Any, SourceInfo]:
        return self.inner.read_raw(self._whole(key))

    def decode_raw(self, key: str, raw: Any) -> T_co:
        return self.inner.decode_raw(self._whole(key), raw)

    def origin(self, key: str) -> tuple[FileStore[T_co], str]:
        return self.inner.origin(self._whole(key))

    def __repr__(self) -> str:
        return f"PrimaryFileStore({self.inner!r}, current_key={self.current_key!r})"
