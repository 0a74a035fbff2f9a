"""The interface of file stores: the value of a key, and its source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from ..errors import EnergonError, SampleError
from ..format.media.metadata import MediaMetadata
from ..samples.source_info import SourceInfo

T_co = TypeVar("T_co", covariant=True)


class FileStore(ABC, Generic[T_co]):
    """Files by key. A subclass needs only :meth:`__getitem__`.

    Cache pools read a store from several threads, and worker processes are forked or get a pickled copy. So a store has
    no position, and its ``__getstate__`` drops open handles.

    >>> class Squares(FileStore[int]):
    ...     def __getitem__(self, key):
    ...         return int(key) ** 2, SourceInfo("squares", key, None, (key,))
    >>> sample = {}
    >>> Squares().get("7", sample), sample
    (49, {'__sources__': (SourceInfo(dataset_path='squares', index='7', shard_name=None, file_names=('7',)),)})
    """

    @abstractmethod
    def __getitem__(self, key: str) -> tuple[T_co, SourceInfo]:
        """Return the value of a file, and its source.

        Raises:
            KeyError: The file does not exist.
        """

    def worker_init(self) -> None:
        """Do nothing: nothing calls it, since a store opens files at its first use. Stores of version 8 override it."""

    worker_close = close = worker_init

    def get_path(self) -> str:
        """Return the path that the store reads, for messages; by default the name of its class."""
        return type(self).__name__

    def get(self, key: str, sample: Any = None) -> T_co:
        """Return the value of a file.

        Args:
            key: Key of the file.
            sample: The sample that uses the value, a dataclass or a dict; the file's source is appended to its
                ``__sources__``.

        Raises:
            KeyError: The file does not exist.
        """
        value, source = self[key]
        if sample is not None:
            add_source(sample, source)
        return value

    def get_media_metadata(self, key: str) -> MediaMetadata:
        """Return the metadata of an image, audio or video, without decoding it.

        Raises:
            EnergonError: The store has no media metadata.
        """
        raise EnergonError(
            f"{type(self).__name__} has no media metadata, so none of {key!r}",
            at=self.get_path(),
            hint="use the store of a prepared dataset, or of a folder that energon prepare-media has processed",
        )

    def read_raw(self, key: str) -> tuple[Any, SourceInfo]:
        """Return a file as it is stored, and its source; :meth:`decode_raw` turns it into the value.

        A cache pool stores the raw file, and decodes it in ``Lazy.get``. By default the raw file is the value.
        """
        return self[key]

    def decode_raw(self, key: str, raw: Any) -> T_co:  # noqa: ARG002 - subclasses may need the key
        """Decode a file that :meth:`read_raw` returned."""
        value: T_co = raw
        return value

    def identity(self) -> tuple[Any, ...] | None:
        """Return values that are equal for stores of the same files, which are then equal; None compares objects."""
        return None

    def __eq__(self, other: object) -> bool:
        mine = self.identity()
        return self is other or (mine is not None and type(other) is type(self) and other.identity() == mine)

    def __hash__(self) -> int:
        mine = self.identity()
        return object.__hash__(self) if mine is None else hash((type(self), *mine))

    def origin(self, key: str) -> tuple[FileStore[T_co], str]:
        """Return the store and key that identify this file for all samples; by default this store and key.

        A store that is made for one sample returns the store it wraps. Then a cache pool fetches a file of two samples
        once, and keeps no sample alive.
        """
        return self, key


def add_source(sample: Any, source: SourceInfo) -> None:
    """Append a source to the ``__sources__`` of a sample, which is a dataclass or a dict."""
    if isinstance(sample, dict):
        sample["__sources__"] = (*(sample.get("__sources__") or ()), source)
    else:
        sample.__sources__ = (*(getattr(sample, "__sources__", None) or ()), source)


class MissingFileError(SampleError, KeyError, FileNotFoundError):
    """The file of a key does not exist, or several files have the key.

    It is a :class:`~loader.errors.SampleError`, so that a run skips and counts the sample that needs the file. It is
    also a ``KeyError`` and a ``FileNotFoundError``, which code for dicts and folders catches.

    >>> try:
    ...     DatasetFileStore("photos").get("9999.txt")
    ... except MissingFileError as error:
    ...     print(error.message)
    there is no key '9999' in this dataset; its first key is '0000'
    """
