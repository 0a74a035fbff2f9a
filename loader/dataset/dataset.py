"""A dataset on disk: samples by number, each with named parts."""

from __future__ import annotations

import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..cached_property import cached_property
from ..errors import ConfigError, EmptyDatasetError
from ..format.columns.column import column_names
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig, parse_dataset_config
from ..format.documents.dataset_files import current_split_file, read_split_config
from ..format.documents.load_request import ALL_PARTS
from ..format.documents.messages import nearest_hint
from ..format.documents.next_command import split_hint
from ..format.documents.providers import SHARD_SUFFIXES
from ..format.documents.split_config import SplitConfig, split_sample_name
from ..format.filters.files import FilterFiles, filter_names
from ..format.filters.rows import FilteredShard, FilterRows, open_filter
from ..format.index.dataset_index import DatasetIndex
from ..format.index.layout import SampleIndex, ShardEntry
from ..format.index.locations import SampleLocations
from ..format.nv_meta import (
    DATASET_YAML,
    FOLDER,
    SPLIT_YAML,
)
from ..format.records.folder_index import RecordIndex
from ..storage import FileInfo, LocalStorage, ReadableFile, Storage, read_document
from .open_files import OpenFiles

_MAX_LISTINGS = 5  # of a dataset that is being prepared


class PartPlace(NamedTuple):
    """The location of a part.

    Attributes:
        name: Name of the part.
        size_bytes: Its size.
        offset: Offset of its bytes in the shard; None for a value of a JSONL, token or Parquet file.
    """

    name: str
    size_bytes: int
    offset: int | None


class Member(NamedTuple):
    """One dataset of a sample: the prefix of its parts' names, the dataset, and the sample's number there."""

    prefix: str
    dataset: Dataset
    number: int


class Dataset(ABC):
    """Samples by number, each with named parts; :func:`~.opening.dataset_at` opens one.

    Opening reads one small file; other files are read at their first use. Threads may read bytes at the same time.

    Args:
        ref: What to open.
        storage: The folder of the shards.
        shard_counts: The shards in order, with their numbers of samples.
        reads_samples: The index is read sample by sample: its columns are mapped at their first use, and those of a
            remote dataset are fetched at once.
        rechecks: Compare a shard on this machine with the index again whenever the file has changed.
    """

    def __init__(
        self,
        ref: DatasetRef,
        storage: Storage,
        shard_counts: dict[str, int],
        *,
        reads_samples: bool = False,
        rechecks: bool = False,
    ) -> None:
        self.ref = ref
        self.storage = storage
        self.path = storage.path("")
        self.shard_counts = shard_counts
        self.files = OpenFiles()
        """The open shards."""
        self._reads_samples = reads_samples
        self._rechecks = rechecks and isinstance(storage, LocalStorage)
        self._checked: dict[str, FileInfo] = {}

    def __len__(self) -> int:
        """Return the number of samples in the index, excluded ones included."""
        return len(self.index)

    # ---------------------------------------------------------------------------------------------------- samples

    @property
    @abstractmethod
    def index(self) -> SampleIndex:
        """The index of all samples."""

    @property
    def tar_index(self) -> DatasetIndex:
        """The index of tar shards, with parts and keys; built at the first use if another tool prepared the dataset.

        Raises:
            ConfigError: The shards are not tar files.
            FormatError: The index is damaged.
        """
        raise ConfigError(
            f"expected a dataset of tar shards, found one of {self.format} files, whose samples have no "
            "names to look up",
            at=self.path,
            hint="mix this dataset with others by a blend; for joins and auxiliary stores, pack it into tar shards",
        )

    @property
    def records(self) -> RecordIndex | None:
        """The index of JSONL, token or Parquet files; None if the shards are tar files."""
        return None

    @property
    @abstractmethod
    def format(self) -> str:
        """Format of the shards: ``"webdataset"``, ``"jsonl"``, ``"binidx"`` or ``"parquet"``."""

    @abstractmethod
    def parts(self, sample: int) -> list[PartPlace]:
        """Return the parts of a sample in their order in the shard; those of tar shards without reading their bytes.

        Raises:
            FormatError: The index or the sample's line or row is damaged.
        """

    @abstractmethod
    def read(self, sample: int, part: str, start: int = 0, stop: int | None = None) -> bytes:
        """Read the bytes ``[start, stop)`` of a part; fewer at its end.

        Raises:
            KeyError: The sample has no such part.
            FormatError: The shard has changed since it was indexed, or is damaged.
            StorageError: The shard is missing or cannot be read.
        """

    @abstractmethod
    def read_parts(
        self, sample: int, names: Collection[str] | None = None, *, max_json_bytes: int | None = None
    ) -> dict[str, Any]:
        """Read the parts of one sample.

        Args:
            sample: Number of the sample in the index.
            names: Names of the parts to read; None for all.
            max_json_bytes: Of larger JSON parts only the first bytes are read; None reads all parts whole.

        Returns:
            Part name → bytes, in the order in the shard; the values of a row's columns for Parquet files.

        Raises:
            FormatError: The shard is not the indexed one, or ends within a part.
        """

    # ------------------------------------------------------- samples of one dataset, as those of joined ones

    @property
    def first(self) -> Dataset:
        """The dataset that has the keys, columns and filters: this one."""
        return self

    @property
    def part_names(self) -> Sequence[str]:
        """Names of the parts that samples may have."""
        return self.index.part_names

    def numbers(self, samples: IntArray) -> IntArray:
        """Return the numbers of samples in each dataset that has parts of them, shape (n, 1)."""
        return samples[:, np.newaxis]

    def with_first(self, numbers: IntArray) -> IntArray:
        """Return the samples that have some numbers in the first dataset, ascending."""
        return numbers

    def members_of(self, sample: int) -> list[Member]:
        """Return the datasets that a sample has parts in."""
        return [Member("", self, sample)]

    def find(self, key: str) -> list[int]:
        """Return the samples that have a key, ascending."""
        return self.index.find(key)

    # --------------------------------------------------------------------------------- samples by the thousand

    has_documents = True
    """False for a single file: no ``.nv-meta`` describes it, and every split part is the whole file."""

    has_store = True
    """True if an own store finds parts by name."""

    @property
    def holds_values(self) -> bool:
        """True if the stored parts are final values, as those of Parquet files; False if they are bytes to decode."""
        return False

    @property
    def holds_lines(self) -> bool:
        """True if samples are lines of JSONL files, which end with a line break."""
        return False

    @property
    def is_fetched(self) -> bool:
        """True if samples are fetched from an object store, ahead of their use."""
        return False

    @abstractmethod
    def locator(self, wanted: Callable[[str], bool]) -> Callable[..., SampleLocations]:
        """Return the function that locates samples, by their numbers in the index.

        Args:
            wanted: Returns True for the names of parts that are read.
        """

    @abstractmethod
    def stored_parts(self, file: ReadableFile, sample: int, wanted: Callable[[str], bool]) -> dict[str, Any]:
        """Read the parts of a sample one by one, as they are stored, for samples that are not one byte range.

        Raises:
            FormatError: The shard ends within a part, or is damaged.
        """

    @property
    def values(self) -> Callable[[Mapping[str, Any], int], dict[str, Any]] | None:
        """Function that converts the stored parts of a sample, by its number; None if they are decoded as they are."""
        return None

    def names_of_parts(self, sample: int) -> list[str]:
        """Return the names of all parts of a sample."""
        return [part.name for part in self.parts(sample)]

    @property
    def uuid(self) -> str | None:
        """UUID of the index; None for a single file, which has none."""
        return self.index.uuid

    def checksum(self, runs: Sequence[IntArray], start: int) -> int:
        """Continue a checksum, which differs for other samples of the same count.

        Args:
            runs: Two arrays that describe the samples of a split part.
            start: The checksum so far.
        """
        ends, starts = runs
        return zlib.crc32(starts.tobytes(), zlib.crc32(ends.tobytes(), start))

    def full_key(self, sample: int) -> str:
        """Return ``shard/key`` of a sample, or its number if the dataset is a single file."""
        return self.index.full_key(sample)

    def place_of(self, sample: int) -> str:
        """Describe the location of a sample, without reading it."""
        return f"{self.full_key(sample)!r} of {self.ref.path}"

    def no_samples(self, split_part: str, *, is_subset: bool, filter_name: str | None) -> EmptyDatasetError:
        """Return the error for a split part, or a subset of it, without samples."""
        found = f"{'the subset of ' if is_subset else ''}split part {split_part!r} of this dataset has no samples"
        hint = (
            "widen the subset, or remove the dataset from the mix"
            if is_subset
            else f"name another split part, or {split_hint(self.path)}"
        )
        if filter_name is not None:
            found = f"{found} that the filter {filter_name!r} keeps"
            hint = "name another filter or split part, or none"
        return EmptyDatasetError(found, at=self.path, hint=hint)

    @abstractmethod
    def open_shard(self, shard: ShardEntry) -> ReadableFile:
        """Open a shard, and check that it has not changed since it was indexed.

        Raises:
            FormatError: It has changed.
            StorageError: It is missing or cannot be read.
        """

    def open_file(self, shard: ShardEntry) -> ReadableFile:
        """Return an open shard; open it if necessary."""
        if self._rechecks:
            now = self.storage.stat(shard.name)
            if self._checked.setdefault(shard.name, now) != now:
                self._checked[shard.name] = now
                self.files.drop(shard.name)
        return self.files.find(shard.name) or self.files.add(shard.name, self.open_shard(shard))

    def close(self) -> None:
        """Close all shards; a shard that another thread reads is closed after that."""
        self.files.close()

    # -------------------------------------------------------------------------------------------------- documents

    @property
    def meta_folder(self) -> str:
        """Path of ``.nv-meta``, or of the folder that is used instead."""
        return self.storage.path(FOLDER)

    @cached_property
    def _split_name(self) -> str:
        return self._named("split_config", self.ref.split_file, SPLIT_YAML)

    def loaded_part(self, split_part: str) -> str:
        """Return the split part to load where one is requested: another one if ``dataset.yaml`` names it."""
        return self._named("split_part", split_part, ALL_PARTS) if split_part != ALL_PARTS else split_part

    def _named(self, key: str, requested: str, default: str) -> str:
        """Return the value of a key of ``dataset.yaml``, or the requested one, with a warning if that has no effect."""
        document = self._config_document
        named = self.config and self.config.extra.get(key) if document and key.encode() in document else None
        if named and requested not in (default, named):
            file = self.storage.path(f"{FOLDER}/{self.ref.dataset_file}")
            text = f"{key}={requested!r} has no effect: {file} names {named!r}"
            warnings.warn(text, stacklevel=1)  # of this line, so that it is shown once
        return str(named or requested)

    @property
    def split(self) -> SplitConfig | None:
        """The split; None if the dataset has no split file. Samples that it excludes by a bare key have their shards.

        Raises:
            ConfigError: The file is invalid, or a file requested by name is missing.
        """
        if isinstance(self._split_or_error, ConfigError):
            raise self._split_or_error.with_traceback(None)
        return self._split_or_error

    @cached_property
    def _split_or_error(self) -> SplitConfig | ConfigError | None:
        """The split, or why it is refused: to find that out again takes seconds if the file has millions of lines."""
        try:
            config = read_split_config(self.storage, self._split_name)
        except ConfigError as error:
            return error
        if config is None and self._split_name != SPLIT_YAML:
            return self._missing(self._split_name)
        return config and self._with_shards_of_excluded(config)

    def _with_shards_of_excluded(self, config: SplitConfig) -> SplitConfig:
        """Replace bare keys of excluded samples by ``<shard>/<key>``; the index is read only if there are some."""
        shards = frozenset((*self.shard_counts, *(name for part in config.split_parts.values() for name in part)))
        names: list[str] = []
        for name in config.exclude:
            shard, key = split_sample_name(name, shards)
            is_bare = key is None and shard not in shards and not name.endswith(SHARD_SUFFIXES)
            found = self.index.find(name) if is_bare else []
            names += [self.index.full_key(sample) for sample in found] or [name]
        return (
            config
            if len(names) == len(config.exclude) and tuple(names) == config.exclude
            else replace(config, exclude=tuple(names))
        )

    @property
    def split_file(self) -> str | None:
        """Name in ``.nv-meta`` of the split file that is used; None if the dataset has no split file."""
        return current_split_file(self.storage, self._split_name)

    @cached_property
    def _excluded_shards(self) -> frozenset[str]:
        return self.split.excluded_shards() if self.split and self.split.exclude else frozenset()

    @cached_property
    def _excluded_samples(self) -> dict[str, frozenset[str]]:
        return self.split.excluded_samples() if self.split and self.split.exclude else {}

    def is_excluded(self, sample: int) -> bool:
        """Return True if the split excludes a sample.

        Args:
            sample: Number of the sample in the index.

        Raises:
            ConfigError: The split file is invalid.
        """
        shard = self.index.shard_of(sample).name
        if shard in self._excluded_shards:
            return True
        keys = self._excluded_samples.get(shard)
        return keys is not None and self.index.key(sample) in keys

    @cached_property
    def config(self) -> DatasetConfig | None:
        """The content of ``dataset.yaml``; None if it is missing, and samples are crude.

        Raises:
            ConfigError: The file is invalid, or a file requested by name is missing.
        """
        document = self._config_document
        if document is None:
            if self.ref.dataset_file != DATASET_YAML:
                raise self._missing(self.ref.dataset_file)
            return None
        path = self.storage.path(f"{FOLDER}/{self.ref.dataset_file}")
        config = parse_dataset_config(document.decode("utf-8", "replace"), file=path)
        if config.field_map is None or not config.field_map.needs_parts:
            return config
        parts, are_records = self.index.part_names, self.records is not None
        return replace(config, field_map=config.field_map.resolved(parts, file=path, are_records=are_records))

    @cached_property
    def _config_document(self) -> bytes | None:
        file = f"{FOLDER}/{self.ref.dataset_file}"
        return read_document(self.storage, file, is_short=True) if self.storage.exists(file) else None

    def _missing(self, name: str) -> ConfigError:
        return ConfigError("there is no such file", file=self.storage.path(f"{FOLDER}/{name}"), hint="check its name")

    def excluded_samples(self) -> npt.NDArray[np.int64]:
        """Return the numbers of all samples that the split excludes, ascending.

        Raises:
            ConfigError: The split file is invalid.
        """
        if not (self._excluded_shards or self._excluded_samples):
            return np.empty(0, np.int64)
        shards = {shard.name: shard for shard in self.index.shards}
        numbers = [
            np.arange(*_ends(self.index.samples_of(shards[name]))) for name in self._excluded_shards & shards.keys()
        ]
        for name, keys in self._excluded_samples.items():
            found = [number for key in keys for number in self.index.find(f"{name}/{key}")]
            numbers.append(np.array(found, dtype=np.int64))
        return np.unique(np.concatenate([np.empty(0, np.int64), *numbers]))

    def required_split(self) -> SplitConfig:
        """Return the split; raise a ``ConfigError`` if there is none."""
        if self.split is None:
            raise ConfigError("this dataset has no split file", at=self.path, hint=split_hint(self.path))
        return self.split

    def shards_of_part(self, split_part: str) -> Sequence[str]:
        """Return the names of a split part's shards; raise a ``ConfigError`` that names all parts if it is none."""
        parts = self.split.split_parts if self.split else {}
        if split_part not in parts:
            raise ConfigError(
                f"there is no split part {split_part!r}; there are: {', '.join(parts) or 'none'}"
                + nearest_hint(split_part, parts),
                at=self.storage.path(f"{FOLDER}/{self.split_file or self._split_name}"),
                hint=f"name one of these, or {split_hint(self.path)}",
            )
        return parts[split_part]

    def samples_of_part(self, split_part: str, *, excluded_shards: bool = False) -> list[range]:
        """Return the numbers of the samples of a split part, one range for each shard, excluded samples included.

        Args:
            split_part: Name of the part: ``"train"``, ``"val"`` … or ``ALL_PARTS``.
            excluded_shards: Also return the samples of excluded shards.

        Raises:
            ConfigError: There is no such part; the message names the existing ones. Or a range of the split file
                reaches beyond a shard.
        """
        by_name = {shard.name: shard for shard in self.index.shards}
        shards = tuple(by_name) if split_part == ALL_PARTS else self.shards_of_part(split_part)
        excluded = frozenset[str]() if excluded_shards else self._excluded_shards
        found = {
            name: self.index.samples_of(by_name[name]) for name in shards if name in by_name and name not in excluded
        }
        if self.split is None or split_part not in self.split.sample_ranges:
            return list(found.values())
        file = self.storage.path(f"{FOLDER}/{self.split_file or self._split_name}")
        own = (self.split.samples_of(split_part, len(all_), shard=name, file=file) for name, all_ in found.items())
        return [samples[kept.start : kept.stop] for samples, kept in zip(found.values(), own, strict=True)]

    def rows_of_part(self, kept: FilterRows, split_part: str) -> list[range]:
        """Return the rows of a filter that are samples of a split part, one range for each shard with any.

        Args:
            kept: An opened filter of this dataset.
            split_part: Name of the part.

        Raises:
            ConfigError: There is no such part.
        """
        found = []
        for samples in self.samples_of_part(split_part, excluded_shards=True):
            if not len(samples):
                continue
            shard = self.index.shard_of(samples.start)
            rows = kept.rows_of(shard.name)
            if len(samples) < shard.samples:
                numbers = kept.numbers(np.arange(rows.start, rows.stop))
                rows = rows[numbers.searchsorted(samples.start) : numbers.searchsorted(samples.stop)]
            if len(rows):
                found.append(rows)
        return found

    def runs_of_part(self, split_part: str) -> list[range]:
        """Return the numbers of the samples of a split part in runs of neighbours, without those of excluded shards.

        Raises:
            ConfigError: There is no such part, or its filter is missing.
            FormatError: Its filter is damaged.
        """
        kept = self.filter_of_part(split_part)
        if kept is None:
            return self.samples_of_part(split_part)
        rows = self.rows_of_part(kept, split_part)
        numbers = np.concatenate([np.empty(0, np.int64), *(kept.numbers(np.arange(*_ends(some))) for some in rows)])
        for shard in self.index.shards:
            if shard.name in self._excluded_shards:
                start, stop = _ends(self.index.samples_of(shard))
                numbers = numbers[(numbers < start) | (numbers >= stop)]
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        return [range(int(run[0]), int(run[-1]) + 1) for run in np.split(numbers, breaks) if len(run)]

    def filter_of_part(self, split_part: str, name: str | None = None) -> FilterRows | None:
        """Open the filter that keeps the samples of a split part, and of another filter; None if none does.

        Args:
            split_part: Name of the part.
            name: Name of a filter that a run uses in addition.

        Raises:
            ConfigError: There is no such filter.
            FormatError: A filter is damaged, or of other shards.
        """
        own = self.split.sample_filters.get(split_part) if self.split else None
        found = [self.open_filter(each) for each in (own, name) if each is not None]
        return found[0].intersect(found[1]) if len(found) > 1 else found[0] if found else None

    def column_names(self) -> list[str]:
        """List the columns, which :func:`~.columns.column.open_column` opens."""
        return column_names(self.storage)

    def open_filter(self, name: str) -> FilterRows:
        """Open a filter; its files are in ``.nv-meta``.

        Raises:
            ConfigError: There is no such filter.
            FormatError: A file of it is damaged, or it is of other shards.
        """
        first = {shard.name: shard.first_sample for shard in self.index.shards}
        shards = [FilteredShard(shard, samples, first.get(shard, 0)) for shard, samples in self.shard_counts.items()]
        return open_filter(FilterFiles.of_dataset(self.storage, name), shards, available=filter_names(self.storage))


def _ends(numbers: range) -> tuple[int, int]:
    return numbers.start, numbers.stop
