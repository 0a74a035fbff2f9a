"""Read the parts of a prepared dataset by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Self
from weakref import WeakValueDictionary

from ..dataset.opening import tars_at
from ..dataset.tar import TarDataset
from ..errors import plural
from ..format.dataset_ref import DatasetRef
from ..format.index.current import read_uuid
from ..format.index.dataset_index import DatasetIndex, PartLocation
from ..format.index.layout import ShardEntry
from ..format.media.metadata import MediaMetadata
from ..format.nv_meta import FOLDER, INFO_JSON, INFO_YAML
from ..format.tar.names import key_without_shard, printable, split_member_name
from ..renamed_parameters import renamed_parameters
from ..samples.source_info import SourceInfo
from ..storage import resolve_path
from ..storage.remote import use_storage_options
from .file_store import FileStore, MissingFileError


class DatasetFileStore(FileStore[bytes]):
    """The bytes of the parts of a prepared dataset, by ``key.part`` or ``shard.tar/key.part``.

    The part name begins after the first dot of the last path component: ``a/b/000.seg.png`` is part ``seg.png`` of key
    ``a/b/000``. All samples can be read, excluded ones too. If two shards have the key, ``key.part`` names the sample
    that has such a part; if both samples have it, the name is refused. A name of the form ``shard.tar/key.part`` is
    looked up as such before it is looked up as a key with slashes. If there is neither, the shard is taken to be that
    of another dataset, and the key is looked up alone: an auxiliary store finds a ``__key__`` of the primary dataset.

    The stores of a process that read one dataset share its open files. A pickled store opens the dataset again.

    Args:
        path: Path of the dataset's folder.
        meta_folder: Folder to use instead of its ``.nv-meta``.
        storage_options: Endpoint, region and limits of an object store.

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: ``.info.json`` is invalid, or the options are wrong.
        FormatError: The index is damaged.

    >>> DatasetFileStore("photos").get("0001.txt")
    b'a dog'
    """

    @renamed_parameters(dataset_path="path")
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        meta_folder: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        use_storage_options(path, storage_options)
        self._ref = DatasetRef(os.fspath(path), meta_folder=None if meta_folder is None else resolve_path(meta_folder))
        self._opened: TarDataset | None = open_shared(self._ref)

    @classmethod
    def of(cls, ref: DatasetRef) -> Self:
        """Return the store of a dataset, whatever documents the reference names."""
        return cls(ref.path, meta_folder=ref.meta_folder)

    def __getstate__(self) -> DatasetRef:
        return self._ref

    def __setstate__(self, state: DatasetRef) -> None:
        self._ref = state
        self._opened = None

    def _dataset(self) -> TarDataset:
        opened = self._opened
        if opened is None:
            opened = self._opened = open_shared(self._ref)
        return opened

    def __getitem__(self, key: str) -> tuple[bytes, SourceInfo]:
        """Read a part.

        Raises:
            MissingFileError: There is no such part, or two shards have one; the message names the existing ones.
            FormatError: The shard changed since it was indexed, or ends within the part.
            StorageError: The shard cannot be read.
        """
        dataset = self._dataset()
        shard, part, member = self._find(dataset.index, key)
        return dataset.read_range(shard, part), SourceInfo(self._ref.path, member, shard.name, (member,))

    def get_media_metadata(self, key: str) -> MediaMetadata:
        """Return the media metadata of an image, audio or video in ``index.sqlite``.

        Raises:
            MissingFileError: There is no such part, or two shards have one.
            ConfigError: No media metadata was collected; the message names the command that does.
            SampleError: There is no media metadata of this part.
        """
        dataset = self._dataset()
        return dataset.media.get(self._find(dataset.index, key)[2])

    def _find(self, index: DatasetIndex, key: str) -> tuple[ShardEntry, PartLocation, str]:
        split = split_member_name(key)
        if split is None:
            raise self._not_a_name(key)
        name, part_name = split
        samples = index.find_first_full(name)
        if not samples and (bare := key_without_shard(name)) is not None:
            samples = index.find_first_full(bare)
        matches = [
            (sample, shard_and_part)
            for sample in samples
            if (shard_and_part := index.shard_and_part(sample, part_name))
        ]
        if len(matches) != 1:
            raise self._ambiguous(key, [row[0] for row in matches]) if matches else self._missing(name, part_name)
        sample, (shard, part) = matches[0]
        # A bare key in ASCII is the member's name; reading it from the index takes a microsecond.
        member = key if ".tar/" not in key and key.isascii() else f"{index.key(sample)}.{part_name}"
        return shard, part, member

    def get_path(self) -> str:
        return self._ref.path

    def _not_a_name(self, key: str) -> MissingFileError:
        return MissingFileError(
            f"{key!r} does not name a part: expected key.part or shard.tar/key.part",
            key=key,
            source=self._ref.path,
            hint="append the part name to the key: sample['__key__'] + '.jpg'",
        )

    def _missing(self, name: str, part_name: str) -> MissingFileError:
        index = self._dataset().index
        samples = index.find_first_full(name)
        if not samples:
            # Similar keys cannot be found by their hashes.
            first = f"; its first key is {index.key(0)!r}" if len(index) else ""
            message = f"there is no key {name!r} in this dataset{first}"
            hint = "show keys with energon preview; a key ends before the first dot of the last path component"
        else:
            parts = list(dict.fromkeys(part.name for sample in samples for part in index.parts(sample)))
            listed = ", ".join(map(printable, parts[:20])) + (", …" if len(parts) > 20 else "")
            message = f"key {name!r} has no part {part_name!r}; it has: {listed or 'none'}"
            hint = "name one of these"
        return MissingFileError(message, key=name, part=part_name, source=self._ref.path, hint=hint)

    def _ambiguous(self, key: str, samples: list[int]) -> MissingFileError:
        index = self._dataset().index
        part_name = PurePosixPath(key).name.partition(".")[2]
        names = [repr(f"{index.full_key(sample)}.{part_name}") for sample in samples[:2]]
        more = f" and {len(samples) - 2} more" if len(samples) > 2 else ""
        return MissingFileError(
            f"{plural(len(samples), 'shard has', 'shards have')} {key!r}: {names[0]} and {names[1]}{more}",
            key=key,
            source=self._ref.path,
            hint=f"write shard.tar/key.part: {names[0]}; or make the keys unique with energon prepare --fix-duplicates",
        )

    def identity(self) -> tuple[Any, ...]:
        return (self._ref,)

    def __repr__(self) -> str:
        meta = f", meta_folder={self._ref.meta_folder!r}" if self._ref.meta_folder else ""
        return f"DatasetFileStore({self._ref.path!r}{meta})"


_opened: WeakValueDictionary[tuple[object, ...], TarDataset] = WeakValueDictionary()
"""The datasets that stores of this process have open, by path and version."""


def open_shared(ref: DatasetRef) -> TarDataset:
    """Open a dataset of tar shards, or return it if a store of this process has it open."""
    version = _version(ref)
    opened = _opened.get(version) if version else None
    if opened is None:
        opened = tars_at(ref)
        if version:
            opened = _opened.setdefault(version, opened)
    return opened


def _version(ref: DatasetRef) -> tuple[object, ...] | None:
    """Return values that change when the dataset is prepared again; None if it is not prepared."""
    storage = ref.storage()
    info = next((name for name in (INFO_JSON, INFO_YAML) if storage.exists(name)), None)
    return (storage.path(""), storage.path(FOLDER), read_uuid(storage), storage.stat(info).mtime_ns) if info else None
