"""Datasets of tar shards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ..cached_property import cached_property
from ..errors import ConfigError
from ..format.data_kind import Kind
from ..format.index.checked_parts import CheckedParts
from ..format.index.current import current_index
from ..format.index.dataset_index import DatasetIndex, PartLocation
from ..format.index.fresh_shard import open_fresh_shard
from ..format.index.layout import ShardEntry
from ..format.index.locations import SampleLocator
from ..format.index.sample_bytes import read_sample
from ..format.media.metadata import MediaMetadataReader
from ..storage import ReadableFile, Storage
from .dataset import Dataset, Documents, PartPlace


class TarDataset(Dataset):
    """A prepared folder of tar shards.

    Args:
        checks_parts: Compare each part with its header, because the index is not from where the shards are.
        others: As for :class:`.Dataset`.
    """

    kind: Kind = "tar shards"

    def __init__(
        self,
        documents: Documents,
        shard_counts: Mapping[str, int],
        open_index: Callable[[], DatasetIndex],
        *,
        rechecks: bool = False,
        checks_parts: bool = False,
    ) -> None:
        super().__init__(documents, shard_counts, rechecks=rechecks)
        self._checks_parts = checks_parts
        self.is_fetched = documents.storage.checks_versions
        self._open_index = open_index

    @cached_property
    def index(self) -> DatasetIndex:
        """The index of all samples; built at the first use if another tool prepared the dataset."""
        return self._open_index()

    @cached_property
    def media(self) -> MediaMetadataReader:
        return MediaMetadataReader(self.storage)

    def parts(self, sample: int) -> list[PartPlace]:
        return [PartPlace(part.name, part.size_bytes, part.offset) for part in self.index.parts(sample)]

    def read(self, sample: int, part: str, start: int = 0, stop: int | None = None) -> bytes:
        location = next((candidate for candidate in self.index.parts(sample) if candidate.name == part), None)
        if location is None:
            raise KeyError(part)
        return self.read_range(self.index.shard_of(sample), location, start, stop)

    def read_range(self, shard: ShardEntry, part: PartLocation, start: int = 0, stop: int | None = None) -> bytes:
        """Read the bytes ``[start, stop)`` of a part that is located; fewer at its end."""
        stop = part.size_bytes if stop is None else min(stop, part.size_bytes)
        if start >= stop and part.size_bytes:
            return b""
        file = self.open_file(shard)
        data = file.read_at(part.offset + start, max(0, stop - start))
        if len(data) < stop - start:
            read_sample(file, [part], shard=self.storage.path(shard.name))  # raises the error
        return data

    def read_parts(
        self, sample: int, names: Collection[str] | None = None, *, max_json_bytes: int | None = None
    ) -> dict[str, bytes]:
        shard = self.index.shard_of(sample)
        return read_sample(
            self.open_file(shard),
            self.index.parts(sample),
            shard=self.storage.path(shard.name),
            names=names,
            max_json_bytes=max_json_bytes,
        )

    def locator(self, wanted: Callable[[str], bool]) -> SampleLocator:
        return SampleLocator(self.index, [name for name in self.index.part_names if wanted(name)])

    def stored_parts(self, file: ReadableFile, sample: int, wanted: Callable[[str], bool]) -> dict[str, bytes]:
        locations = [part for part in self.index.parts(sample) if wanted(part.name)]
        return read_sample(file, locations, shard=self.storage.path(self.index.shard_of(sample).name))

    def open_shard(self, shard: ShardEntry) -> ReadableFile:
        file = open_fresh_shard(self.storage, self.index, shard)
        return CheckedParts(file, self.index, shard, self.storage.path(shard.name)) if self._checks_parts else file


def open_tar_index(storage: Storage, shard_counts: dict[str, int], *, reads_samples: bool = False) -> DatasetIndex:
    """Open the index of tar shards; build it if another tool prepared the dataset.

    Args:
        shard_counts: The shards in order, with their numbers of samples.
        reads_samples: The index is read sample by sample: columns are mapped at their first use.
    """
    index = current_index(storage, shard_counts)
    if index is not None:
        index.check_sizes() if reads_samples else index.check()
        return index
    from ..format.compat.foreign_index import build_foreign_index  # loads SQLite, which few datasets need

    return build_foreign_index(storage, shard_counts)


def tar_index(dataset: Dataset) -> DatasetIndex:
    """Return the index of a dataset of tar shards."""
    if not isinstance(dataset, TarDataset):
        raise ConfigError(
            f"expected a dataset of tar shards, found one of {dataset.format} files, whose samples have no "
            "names to look up",
            at=dataset.path,
            hint="mix this dataset with others by a blend; for joins and auxiliary stores, pack it into tar shards",
        )
    return dataset.index
