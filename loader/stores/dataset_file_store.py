"""The parts of a prepared dataset by name."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

from ..format.dataset_index import DatasetIndex, PartLocation
from ..format.index_layout import ShardEntry
from ..format.media_metadata import MediaMetadata
from ..format.member_name import printable, split_member_name
from ..samples.source_info import SourceInfo
from .file_store import FileStore
from .missing_file import MissingFileError
from .open_dataset import OpenDataset, open_dataset

__all__ = ["DatasetFileStore"]


class DatasetFileStore(FileStore[bytes]):
    """Give the bytes of the parts of a prepared dataset, by ``key.part`` or ``shard.tar/key.part``.

    The part name begins behind the first dot of the last path component: ``a/b/000.seg.png`` is part ``seg.png`` of key
    ``a/b/000``. All samples are there, whatever ``split.yaml`` says of them. Where two shards have a key, ``key.part``
    names the sample that has such a part; if both have one, it is refused. What reads as ``shard.tar/key.part`` is that
    before it is a key with slashes.

    The stores of a process that read one dataset share what is open. One that is pickled opens the dataset anew.

    Args:
        path: The dataset's folder.

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: ``.info.json`` says something wrong.
        FormatError: The index is damaged.
    """

    __slots__ = ("_opened", "_path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._opened: OpenDataset | None = open_dataset(path)

    def __getstate__(self) -> str:
        return self._path

    def __setstate__(self, path: str) -> None:
        self._path = path
        self._opened = None

    def _dataset(self) -> OpenDataset:
        found = self._opened
        if found is None:
            found = self._opened = open_dataset(self._path)
        return found

    def __getitem__(self, key: str) -> tuple[bytes, SourceInfo]:
        """Read a part.

        Raises:
            MissingFileError: There is no such part, or two shards have one; the message says what there is.
            FormatError: The shard is not the one that was indexed, or ends within the part.
            StorageError: The shard cannot be read.
        """
        dataset = self._dataset()
        shard, part, member = self._find(dataset.index, key)
        return dataset.read(shard, part), SourceInfo(self._path, member, shard.name, (member,))

    def get_media_metadata(self, key: str) -> MediaMetadata:
        """Get what ``index.sqlite`` says of an image, audio or video.

        Raises:
            MissingFileError: There is no such part, or two shards have one.
            ConfigError: No media metadata was collected; the message names the command that does.
            SampleError: Nothing is known of this part.
        """
        dataset = self._dataset()
        return dataset.media.get(self._find(dataset.index, key)[2])

    def _find(self, index: DatasetIndex, key: str) -> tuple[ShardEntry, PartLocation, str]:
        """Find a part: its shard, where it lies there, and its name without the shard."""
        split = split_member_name(key)
        if split is None:
            raise self._not_a_name(key)
        name, part_name = split
        found = [
            (sample, part)
            for sample in index.find_first_full(name)
            if (part := index.part(sample, part_name)) is not None
        ]
        if len(found) != 1:
            raise self._missing(name, part_name) if not found else self._ambiguous(key, [row[0] for row in found])
        sample, part = found[0]
        return index.shard_of(sample), part, f"{index.key(sample)}.{part_name}"

    def get_path(self) -> str:
        return self._path

    def _not_a_name(self, key: str) -> MissingFileError:
        return MissingFileError(
            f"{key!r} names no part: expected key.part or shard.tar/key.part",
            key=key,
            source=self._path,
            do="write the part name behind the key: sample['__key__'] + '.jpg'",
        )

    def _missing(self, name: str, part_name: str) -> MissingFileError:
        index = self._dataset().index
        samples = index.find_first_full(name)
        if not samples:
            # Which keys are near can't be told from hashes; which parts there are, can.
            near = f"; its first key is {index.key(0)!r}" if len(index) else ""
            found = f"there is no key {name!r} in this dataset{near}"
            advice = (
                "look keys up with energon preview; a key is what stands before the first dot of the last component"
            )
        else:
            there = list(dict.fromkeys(part.name for sample in samples for part in index.parts(sample)))
            some = ", ".join(map(printable, there[:20])) + (", …" if len(there) > 20 else "")
            found = f"key {name!r} has no part {part_name!r}; it has: {some or 'none'}"
            advice = "name one of these"
        return MissingFileError(found, key=name, part=part_name, source=self._path, do=advice)

    def _ambiguous(self, key: str, samples: list[int]) -> MissingFileError:
        index = self._dataset().index
        part_name = PurePosixPath(key).name.partition(".")[2]
        names = [repr(f"{index.full_key(sample)}.{part_name}") for sample in samples[:2]]
        more = f" and {len(samples) - 2} more" if len(samples) > 2 else ""
        return MissingFileError(
            f"{len(samples)} shards have {key!r}: {names[0]} and {names[1]}{more}",
            key=key,
            source=self._path,
            do=f"write shard.tar/key.part: {names[0]}; or make the keys unique with energon prepare --fix-duplicates",
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetFileStore) and self._path == other._path

    def __hash__(self) -> int:
        return hash((DatasetFileStore, self._path))

    def __repr__(self) -> str:
        return f"DatasetFileStore({self._path!r})"
