"""The interface of all file stores: a value for a key, and where it was found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from ..errors import EnergonError
from ..format.media_metadata import MediaMetadata
from ..samples.source_info import SourceInfo

__all__ = ["FileStore", "add_source"]

T_co = TypeVar("T_co", covariant=True)


class FileStore(ABC, Generic[T_co]):
    """Files by key. Derive from it for a store of your own: :meth:`__getitem__` is enough.

    Cache pools read a store from several threads, and worker processes get a pickled copy or are forked, so a store
    keeps no position, and leaves behind what it has opened (``__getstate__``).

    >>> class Squares(FileStore[int]):
    ...     def __getitem__(self, key):
    ...         return int(key) ** 2, SourceInfo("squares", key, None, (key,))
    >>> sample = {}
    >>> Squares().get("7", sample), sample
    (49, {'__sources__': (SourceInfo(dataset_path='squares', index='7', shard_name=None, file_names=('7',)),)})
    """

    __slots__ = ()

    @abstractmethod
    def __getitem__(self, key: str) -> tuple[T_co, SourceInfo]:
        """Get a file's value, and where it was found.

        Raises:
            KeyError: There is no such file.
        """

    def get_path(self) -> str:
        """Give the path of what the store reads, for messages; by default the name of its class."""
        return type(self).__name__

    def get(self, key: str, sample: Any = None) -> T_co:
        """Get a file's value.

        Args:
            key: The file.
            sample: The sample that it becomes part of, a dataclass or a dict: where the file was found is appended to
                its ``__sources__``.

        Raises:
            KeyError: There is no such file.
        """
        value, source = self[key]
        if sample is not None:
            add_source(sample, source)
        return value

    def get_media_metadata(self, key: str) -> MediaMetadata:
        """Get what is known of an image, audio or video without decoding it.

        Raises:
            EnergonError: The store knows nothing of the kind.
        """
        raise EnergonError(
            f"{type(self).__name__} has no media metadata; it was asked for that of {key!r}",
            at=self.get_path(),
            do="ask a prepared dataset, or a folder that energon prepare-media was run on",
        )

    def read_raw(self, key: str) -> tuple[Any, SourceInfo]:
        """Get a file as it is stored; :meth:`decode_raw` makes its value of that.

        A cache pool keeps what this gives, and decodes it when it is asked for. By default it is the value itself.
        """
        return self[key]

    def decode_raw(self, key: str, raw: Any) -> T_co:  # noqa: ARG002 - what the bytes are may be known by the key
        """Make the value of what :meth:`read_raw` gave."""
        value: T_co = raw
        return value

    def origin(self, key: str) -> tuple[FileStore[T_co], str]:
        """Give the store and key that another sample would ask for the same file; by default these.

        A store that is made for one sample says here which one it stands before, so that a cache pool fetches once
        what two samples ask for, and keeps no sample alive.
        """
        return self, key


def add_source(sample: Any, source: SourceInfo) -> None:
    """Append a source to the ``__sources__`` of a sample, a dataclass or a dict."""
    if isinstance(sample, dict):
        sample["__sources__"] = (*(sample.get("__sources__") or ()), source)
    else:
        sample.__sources__ = (*(getattr(sample, "__sources__", None) or ()), source)
