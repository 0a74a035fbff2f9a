"""One dataset of the catalogue: its samples by number, and ranges of bytes of their parts."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...convert.exporting import as_bytes
from ...errors import ConfigError, FormatError
from ...format.dataset_folder import DatasetFolder, open_fresh_shard
from ...format.index.layout import ShardEntry
from ...format.query import SampleQuery, find_samples
from ...format.single_file import open_samples
from ...storage import ReadableFile
from .part_types import is_picture

__all__ = ["BrowsedDataset", "PartAddress", "PartPlace", "Row", "open_dataset", "read_part"]

_MAX_OPEN_SHARDS = 64


class PartPlace(NamedTuple):
    """A part of a sample: its name, size in bytes, and offset in the shard (None in JSONL and Parquet files)."""

    name: str
    size_bytes: int
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A sample as the grid shows it.

    Attributes:
        number: Number of the sample in the dataset.
        shard: Name of its shard.
        key: Its key in the shard.
        picture: Name of its first picture; None without one.
        excluded: The split excludes it.
    """

    number: int
    shard: str
    key: str
    picture: str | None
    excluded: bool


class BrowsedDataset:
    """A dataset that threads may read at the same time.

    Args:
        name: Name in links.
        path: The dataset.
        split_config: Name of the split file; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``.
        weight: Its weight in a metadataset; None without one.
        split_part: The split part that a metadataset uses; None for all.
        place: Its place in the metadataset's tree.
        is_prepared: It has a ``.nv-meta`` of its own, in which exclusions and tags are kept.
    """

    def __init__(
        self,
        name: str,
        path: str,
        *,
        split_config: str | None = None,
        meta_folder: str | None = None,
        weight: float | None = None,
        split_part: str | None = None,
        place: str = "",
        is_prepared: bool = True,
    ) -> None:
        self.name = name
        self.split_config = split_config
        self.meta_folder = meta_folder
        self.folder = self._open_folder(path)
        self.weight = weight
        self.split_part = split_part
        self.place = place
        self.is_prepared = is_prepared
        self._lock = threading.RLock()
        self._open: OrderedDict[str, ReadableFile] = OrderedDict()
        self._reading: Counter[str] = Counter()  # threads that read a shard, which is not closed meanwhile

    def __len__(self) -> int:
        return len(self.folder.index)

    @cached_property
    def shards(self) -> Mapping[str, ShardEntry]:
        """The shards by name."""
        return {shard.name: shard for shard in self.folder.index.shards}

    @property
    def split_parts(self) -> list[str]:
        """Names of the split parts."""
        split = self.folder.split
        return [] if split is None else list(split.split_parts)

    def ranges(self, *, split_part: str | None = None, shard: str | None = None) -> Sequence[range]:
        """Return the samples of a split part or shard, as ranges of numbers.

        Raises:
            ConfigError: There is no such split part or shard.
        """
        with self._lock:
            split_part = split_part or self.split_part
            some = [range(len(self))] if split_part is None else self.folder.runs_of_part(split_part)
            if shard is None:
                return [one for one in some if len(one)]
            entry = self.shards.get(shard)
            if entry is None:
                raise ConfigError(f"there is no shard {shard!r}", at=self.folder.path, hint="check its name")
            start, stop = entry.first_sample, entry.first_sample + entry.samples
            cut = (range(max(start, one.start), min(stop, one.stop)) for one in some)
            return [one for one in cut if len(one)]

    def chosen(self, where: str, *, split_part: str | None = None, shard: str | None = None) -> IntArray:
        """Return the numbers of the samples for which a condition on columns is true, ascending.

        Raises:
            ConfigError: The condition is invalid, or there is no such split part, shard or column.
        """
        with self._lock:
            found = find_samples(self.folder, SampleQuery(where=where))
            some = self.ranges(split_part=split_part, shard=shard)
            kept = [found[np.searchsorted(found, one.start) : np.searchsorted(found, one.stop)] for one in some]
            return np.sort(np.concatenate([np.empty(0, np.int64), *kept]))

    def row(self, number: int) -> Row:
        """Describe a sample for the grid; one whose row or line is damaged has no picture."""
        with self._lock:
            index = self.folder.index
            try:
                parts = self.parts(number)
            except FormatError:
                parts = []
            return Row(
                number=number,
                shard=index.shard_of(number).name,
                key=index.key(number),
                picture=next((part.name for part in parts if is_picture(part.name)), None),
                excluded=self.folder.is_excluded(number),
            )

    def find(self, shard: str, key: str) -> int | None:
        """Return the number of a sample; of a key that a shard repeats, the last; None if there is none."""
        with self._lock:
            index = self.folder.index
            for number in reversed(index.find(f"{shard}/{key}")):
                if index.key(number) == key and index.shard_of(number).name == shard:
                    return int(number)
        return None

    def parts(self, number: int) -> list[PartPlace]:
        """Return the parts of a sample, without reading them from tar shards."""
        with self._lock:
            if self.folder.records is None:
                return [PartPlace(one.name, one.size_bytes, one.offset) for one in self.folder.tar_index.parts(number)]
            return [PartPlace(name, len(as_bytes(value)), None) for name, value in self._record(number).items()]

    def read(self, number: int, part: str, start: int = 0, stop: int | None = None) -> bytes:
        """Read the bytes from ``start`` to ``stop`` of a part, fewer at its end.

        Raises:
            KeyError: The sample has no such part.
            EnergonError: The shard is missing or damaged, or has changed.
        """
        with self._lock:
            if self.folder.records is not None:
                return as_bytes(self._record(number)[part])[start:stop]
            place = next((one for one in self.folder.tar_index.parts(number) if one.name == part), None)
            if place is None:
                raise KeyError(part)
            stop = place.size_bytes if stop is None else min(stop, place.size_bytes)
            shard = self.folder.index.shard_of(number)
            file = self._opened(shard)
            self._reading[shard.name] += 1
        try:  # without the lock: storages answer several reads at a time
            return file.read_at(place.offset + start, stop - start) if stop > start else b""
        finally:
            with self._lock:
                self._reading[shard.name] -= 1

    def reopen(self) -> None:
        """Read the dataset's documents again, after they changed."""
        with self._lock:
            self.folder.close()
            self.folder = self._open_folder(self.folder.path)
            vars(self).pop("shards", None)

    def check_editable(self) -> None:
        """Check that exclusions and tags of samples can be kept.

        Raises:
            ConfigError: They cannot, since the dataset is not prepared.
        """
        if not self.is_prepared:
            raise ConfigError(
                "this dataset is not prepared, so there is no .nv-meta for exclusions and tags",
                at=self.folder.path,
                hint="run energon prepare on its folder, and browse the folder",
            )

    def close(self) -> None:
        """Close all shards."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
            self.folder.close()

    def _open_folder(self, path: str) -> DatasetFolder:
        return open_samples(path, split_config=self.split_config, meta_folder=self.meta_folder)

    def _record(self, number: int) -> dict[str, Any]:
        return self.folder.read_parts(number)

    def _opened(self, shard: ShardEntry) -> ReadableFile:
        file = self._open.get(shard.name)
        if file is None:
            file = self._open[shard.name] = open_fresh_shard(self.folder.storage, self.folder.tar_index, shard)
            idle = (name for name in self._open if name != shard.name and not self._reading[name])
            if len(self._open) > _MAX_OPEN_SHARDS and (oldest := next(idle, None)) is not None:
                self._open.pop(oldest).close()
        self._open.move_to_end(shard.name)
        return file


class PartAddress(NamedTuple):
    """A part for worker processes: path and settings of its dataset, number of its sample, and its name."""

    path: str
    split_config: str | None
    meta_folder: str | None
    number: int
    part: str


def read_part(address: PartAddress) -> bytes:
    """Read a part in a worker process.

    Raises:
        KeyError: The sample has no such part.
        EnergonError: The shard is missing or damaged, or has changed.
    """
    dataset = open_dataset(address.path, address.split_config, address.meta_folder)
    return dataset.read(address.number, address.part)


@lru_cache(maxsize=8)
def open_dataset(path: str, split_config: str | None, meta_folder: str | None) -> BrowsedDataset:
    """Return a dataset that this worker process has opened, or opens."""
    return BrowsedDataset("", path, split_config=split_config, meta_folder=meta_folder)
