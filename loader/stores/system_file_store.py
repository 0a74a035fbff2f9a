"""Read the files below a folder by path."""

from __future__ import annotations

import os
import posixpath
from typing import Any

from ..errors import EnergonError, StorageError
from ..format.media.metadata import MediaMetadata, MediaMetadataReader
from ..format.tar.names import key_without_shard
from ..samples.source_info import SourceInfo
from ..storage import LocalStorage, Storage, is_url, open_parent, open_storage
from .file_store import FileStore, MissingFileError

_MAX_PATH_BYTES = 4096  # of a path on Linux


class SystemFileStore(FileStore[bytes]):
    """The bytes of files by their paths.

    Keys often come from a dataset, which is not trusted. So a key that leads out of the folder is refused: by ``..``,
    as an absolute path or through a link.

    A key that begins with a shard, as ``__key__`` does, also finds the file without it: ``s_0.tar/0001.jpg`` is
    ``0001.jpg`` if the folder has no such subfolder.

    Args:
        base_dir: The folder that keys are relative to, or its URL. None allows any path and any URL; use it only for
            keys that you trust.

    Raises:
        StorageError: The URL's protocol is not supported.

    >>> SystemFileStore(".").get("note.txt")
    b'a note'
    """

    def __init__(self, base_dir: str | os.PathLike[str] | None = None) -> None:
        self.base_dir = base_dir
        storage = None if base_dir is None else open_storage(base_dir)
        self._base = None if storage is None else storage.path("")
        self._remote = storage if self._base is not None and is_url(self._base) else None
        self._real: str | None = None
        self._media: MediaMetadataReader | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return SystemFileStore, (self.base_dir,)

    def __getitem__(self, key: str) -> tuple[bytes, SourceInfo]:
        """Read a file.

        Raises:
            MissingFileError: The file does not exist.
            StorageError: The key leads out of the folder, or the file cannot be read.
        """
        key, storage, name = self._find(key)
        try:
            data = storage.read(name)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                raise self._missing(key) from error
            raise
        return data, SourceInfo(self._base, key, None, (key,))

    def get_media_metadata(self, key: str) -> MediaMetadata:
        """Return the metadata that ``energon prepare-media`` collected of an image, audio or video of the folder.

        Raises:
            StorageError: The key leads out of the folder.
            ConfigError: No media metadata was collected; the message names the command that does.
            SampleError: There is no media metadata of this file.
            EnergonError: The store has no folder.
        """
        if self._base is None:
            raise EnergonError(
                f"a SystemFileStore without a folder has no media metadata, so none of {key!r}",
                hint="set base_dir to the folder that energon prepare-media has processed",
            )
        key = self._find(key)[0]
        if self._media is None:
            self._media = MediaMetadataReader(self._remote or LocalStorage(self._base))
        return self._media.get(posixpath.normpath(key))

    def _find(self, key: str) -> tuple[str, Storage, str]:
        """Return the key, without a shard that is not a folder, with the storage of the file and its name there."""
        shard_place = self._place(key)
        if (bare := key_without_shard(key)) is not None and not shard_place[0].exists(shard_place[1]):
            key, shard_place = bare, self._place(bare)
        return key, *shard_place

    def _place(self, key: str) -> tuple[Storage, str]:
        if not _may_be_path(key):
            raise self._missing(key)
        if self._base is None:
            return open_parent(key if is_url(key) else os.path.abspath(key))
        if self._remote is not None:
            name = posixpath.normpath(key)
            if key.startswith("/") or name.split("/", 1)[0] == "..":
                raise self._outside(key)
            return self._remote, name
        if self._real is None:
            self._real = os.path.realpath(self._base)
        # With all links resolved: a link in the folder may lead anywhere.
        path = os.path.realpath(os.path.join(self._real, key))
        if key.startswith("/") or os.path.commonpath((self._real, path)) != self._real:
            raise self._outside(key)
        folder, name = os.path.split(path)
        return LocalStorage(folder), name

    def _outside(self, key: str) -> StorageError:
        return StorageError(
            f"the key {key!r} leads out of this folder",
            path=self._base,
            hint="keep the files themselves, not links, in the folder, and write keys relative to it",
        )

    def _missing(self, key: str) -> MissingFileError:
        where = "in this folder" if self._base else "on this machine"
        short_key = key if len(key) <= _MAX_PATH_BYTES else f"{key[:100]}…"
        return MissingFileError(
            f"there is no file {short_key!r} {where}",
            key=key,
            source=self._base,
            hint="check the key: it is the path relative to the folder" if self._base else "check the path",
        )

    def get_path(self) -> str:
        return self._base or "/"

    def identity(self) -> tuple[Any, ...]:
        return (self._base,)

    def __repr__(self) -> str:
        return f"SystemFileStore({self._base!r})"


def _may_be_path(key: str) -> bool:
    """Return True if a key can be a path. Longer keys are refused early: resolving their links would take seconds."""
    try:
        return "\0" not in key and len(os.fsencode(key)) < _MAX_PATH_BYTES
    except UnicodeEncodeError:  # JSON may hold half of a character
        return False
