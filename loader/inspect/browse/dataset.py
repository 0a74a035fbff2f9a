"""One dataset of the catalogue: its samples by number, and ranges of bytes of their parts."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...dataset.dataset import PartPlace
from ...dataset.opening import dataset_at
from ...dataset.query import SampleQuery, find_samples
from ...dataset.records import SingleFile
from ...dataset.split_parts import is_excluded, runs_of_part
from ...dataset.tar import TarDataset
from ...errors import ConfigError, FormatError
from ...format.dataset_ref import DatasetRef
from ...format.index.dataset_index import PartLocation
from ...format.index.layout import ShardEntry
from ...format.nv_meta import FOLDER, INFO_JSON
from ...storage import LocalStorage
from .part_types import is_picture

_CHECKED_EVERY_S = 1.0


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


class DatasetAddress(NamedTuple):
    """A dataset for worker processes, and the version of it that the server has opened."""

    ref: DatasetRef
    version: str


class BrowsedDataset:
    """A dataset that threads may read at the same time.

    Args:
        name: Name in links.
        ref: The dataset.
        weight: Its weight in a metadataset; None without one.
        split_part: The split part that a metadataset uses; None for all.
        place: Its place in the metadataset's tree.
        is_prepared: It has a ``.nv-meta`` of its own, in which exclusions and tags are kept.
    """

    def __init__(
        self,
        name: str,
        ref: DatasetRef,
        *,
        weight: float | None = None,
        split_part: str | None = None,
        place: str = "",
        is_prepared: bool = True,
    ) -> None:
        self.name = name
        self.folder = dataset_at(ref, rechecks=True)
        self._files = self._stat_files()
        self._checked_at_s = time.monotonic()
        self.weight = weight
        self.split_part = split_part
        self.place = place
        self.is_prepared = is_prepared
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.folder.index)

    @cached_property
    def version(self) -> str:
        """A name of the dataset's shards as they are indexed: in one version, a number is always the same sample."""
        shards = repr((self.folder.path, self.folder.index.shards))
        return hashlib.sha256(shards.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def ref(self) -> DatasetRef:
        """The dataset, and the documents by which it is read."""
        return replace(self.folder.ref, path=self.folder.path)

    @property
    def address(self) -> DatasetAddress:
        """The dataset for worker processes."""
        return DatasetAddress(self.ref, self.version)

    @cached_property
    def shards(self) -> Mapping[str, ShardEntry]:
        """The shards by name."""
        return {shard.name: shard for shard in self.folder.index.shards}

    @property
    def split_parts(self) -> list[str]:
        """Names of the split parts."""
        split = self.folder.documents.split
        return [] if split is None else list(split.split_parts)

    def ranges(self, *, split_part: str | None = None, shard: str | None = None) -> Sequence[range]:
        """Return the samples of a split part or shard, as ranges of numbers.

        Raises:
            ConfigError: There is no such split part or shard.
        """
        with self._lock:
            split_part = split_part or self.split_part
            some = [range(len(self))] if split_part is None else runs_of_part(self.folder, split_part)
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
                excluded=is_excluded(self.folder, number),
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
            return self.folder.parts(number)

    def read(self, number: int, part: str | PartPlace, start: int = 0, stop: int | None = None) -> bytes:
        """Read the bytes from ``start`` to ``stop`` of a part, fewer at its end. A place needs no look-up by name.

        Raises:
            KeyError: The sample has no such part.
            EnergonError: The shard is missing or damaged, or has changed.
        """
        with self._lock:
            folder = self.folder
            place = self.part_place(number, part) if isinstance(part, str) else part
            if place.offset is None or not isinstance(folder, TarDataset):
                return folder.read(number, place.name, start, stop)
            shard = folder.index.shard_of(number)
            folder.open_file(shard)
        # Without the lock: storages answer several reads at a time.
        return folder.read_range(shard, PartLocation(place.name, place.offset, place.size_bytes), start, stop)

    def part_place(self, number: int, part: str) -> PartPlace:
        """Return where a part is.

        Raises:
            KeyError: The sample has no such part.
        """
        place = next((one for one in self.parts(number) if one.name == part), None)
        if place is None:
            raise KeyError(part)
        return place

    def refresh(self) -> bool:
        """Open a local dataset again if it was prepared or split again; return True if it was.

        Files are checked once a second.

        Raises:
            EnergonError: The dataset is damaged.
        """
        now = time.monotonic()
        if now < self._checked_at_s + _CHECKED_EVERY_S:
            return False
        self._checked_at_s = now
        files = self._stat_files()
        if files == self._files or None in files:  # a missing one: a prepare runs
            return False
        self.reopen()
        return True

    def reopen(self) -> None:
        """Read the dataset's documents again, after they changed."""
        with self._lock:
            files = self._stat_files()
            folder = dataset_at(self.ref, rechecks=True)
            self.folder.close()
            self.folder, self._files = folder, files
            for name in ("shards", "version"):
                vars(self).pop(name, None)

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
            self.folder.close()

    def _stat_files(self) -> tuple[tuple[int, int] | None, ...]:
        """Return time and size of the files that are written when a local dataset changes."""
        if not isinstance(self.folder.storage, LocalStorage) or isinstance(self.folder, SingleFile):
            return ()
        names = [INFO_JSON]
        if self.folder.documents.split_file is not None:
            names.append(f"{FOLDER}/{self.ref.split_file}")
        return tuple(_stat(self.folder.storage.path(name)) for name in names)


def _stat(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
