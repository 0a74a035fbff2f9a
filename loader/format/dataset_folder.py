"""Open a prepared dataset for reading."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cached_property import cached_property
from ..errors import ConfigError, StorageError
from ..storage import LocalStorage, ReadableFile, Storage, missing_folder, open_storage, read_document
from .columns.column_files import column_names
from .documents.dataset_config import DatasetConfig, parse_dataset_config
from .documents.dataset_files import current_split_file, read_shard_info, read_split_config
from .documents.load_request import ALL_PARTS
from .documents.messages import nearest_hint
from .documents.next_command import command_for_folder, fault_of_file, quoted, split_hint
from .documents.providers import SHARD_SUFFIXES, record_format
from .documents.split_config import SplitConfig, split_sample_name
from .filters.files import FilterFiles, filter_names
from .filters.rows import FilteredShard, FilterRows, open_filter
from .index.current import current_index, index_folders, prefetch_documents
from .index.dataset_index import DatasetIndex
from .index.fresh_shard import open_fresh_shard
from .index.layout import ROW_COLUMNS, SampleIndex
from .index.object_commit import read_committed_documents
from .index.sample_bytes import read_sample
from .nv_meta import (
    DATASET_YAML,
    FOLDER,
    INDEX_FOLDER,
    SPLIT_YAML,
    open_dataset_storage,
)
from .records.folder_index import RecordIndex, open_record_index
from .records.record_file import read_record
from .unfinished import check_finished

_MAX_LISTINGS = 5  # of a dataset that is being prepared


class DatasetFolder:
    """A folder of shards with its ``.nv-meta``. Opening reads one small file; other files are read at their first use.

    Args:
        path: Path of the folder.
        split_config: Name of the split file in ``.nv-meta``, unless ``dataset.yaml`` names one.
        dataset_config: Name of the dataset file in ``.nv-meta``.
        meta_folder: Folder to use instead of ``.nv-meta``.
        reads_samples: The index is read sample by sample: its columns are mapped at their first use, and those of a
            remote dataset are fetched at once.

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: ``.info.json`` is invalid.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        split_config: str = SPLIT_YAML,
        dataset_config: str = DATASET_YAML,
        meta_folder: str | os.PathLike[str] | None = None,
        reads_samples: bool = False,
    ) -> None:
        self.storage: Storage = open_storage(path) if meta_folder is None else open_dataset_storage(path, meta_folder)
        self.path = self.storage.path("")
        self._requested_split = split_config
        self._config_name = dataset_config
        self._reads_samples = reads_samples
        self._prefetch(with_index=reads_samples)
        counts = read_shard_info(self.storage)
        if counts is None:
            if not self.storage.exists(""):
                raise missing_folder(self.storage)
            check_finished(self.storage)
            fault = fault_of_file(self.path)
            if fault is not None:
                raise StorageError(fault[0], path=self.path, hint=fault[1])
            flag = "" if meta_folder is None else f" --meta-folder {quoted(os.fspath(meta_folder))}"
            where = ".nv-meta/.info.json" if meta_folder is None else f".info.json in {self.meta_folder}"
            raise StorageError(
                f"this folder is no prepared dataset: it has no {where}",
                path=self.path,
                hint=command_for_folder(os.fspath(path), option=flag),
            )
        self.shard_counts: dict[str, int] = counts
        """The shards in order, with their numbers of samples."""
        self._open_shard: tuple[str, ReadableFile] | None = None

    def _prefetch(self, *, with_index: bool) -> None:
        """Fetch the documents of a remote dataset at the same time; all again if a prepare commits meanwhile."""
        if isinstance(self.storage, LocalStorage):
            return
        for _ in range(_MAX_LISTINGS):
            self.storage.list_once(FOLDER)
            read_committed_documents(self.storage)
            prefetch_documents(self.storage, [self._config_name, self._requested_split])
            if with_index and self.storage.checks_versions:
                for uuid in index_folders(self.storage)[:1]:
                    self.storage.prefetch_fixed([f"{INDEX_FOLDER}/{uuid}/{name}.npy" for name in ROW_COLUMNS])
            if self.storage.settle_prefetched():
                break

    @property
    def meta_folder(self) -> str:
        """Path of ``.nv-meta``, or of the folder that is used instead."""
        return self.storage.path(FOLDER)

    @cached_property
    def _split_name(self) -> str:
        return self._named("split_config", self._requested_split, SPLIT_YAML)

    def loaded_part(self, split_part: str) -> str:
        """Return the split part to load where one is requested: another one if ``dataset.yaml`` names it."""
        return self._named("split_part", split_part, ALL_PARTS) if split_part != ALL_PARTS else split_part

    def _named(self, key: str, requested: str, default: str) -> str:
        """Return the value of a key of ``dataset.yaml``, or the requested one, with a warning if that has no effect."""
        document = self._config_document
        named = self.config and self.config.extra.get(key) if document and key.encode() in document else None
        if named and requested not in (default, named):
            file = self.storage.path(f"{FOLDER}/{self._config_name}")
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
            if self._config_name != DATASET_YAML:
                raise self._missing(self._config_name)
            return None
        path = self.storage.path(f"{FOLDER}/{self._config_name}")
        config = parse_dataset_config(document.decode("utf-8", "replace"), file=path)
        if config.field_map is None or not config.field_map.needs_parts:
            return config
        parts, are_records = self.index.part_names, self.records is not None
        return replace(config, field_map=config.field_map.resolved(parts, file=path, are_records=are_records))

    @cached_property
    def _config_document(self) -> bytes | None:
        file = f"{FOLDER}/{self._config_name}"
        return read_document(self.storage, file, is_short=True) if self.storage.exists(file) else None

    def _missing(self, name: str) -> ConfigError:
        return ConfigError("there is no such file", file=self.storage.path(f"{FOLDER}/{name}"), hint="check its name")

    @property
    def index(self) -> SampleIndex:
        """The index of all samples."""
        return self.tar_index if self.records is None else self.records

    @cached_property
    def records(self) -> RecordIndex | None:
        """The index of a folder of JSONL or Parquet files; None if the shards are tar files."""
        if record_format(next(iter(self.shard_counts), "")) is None:
            return None
        return open_record_index(self.storage, self.shard_counts)

    @cached_property
    def tar_index(self) -> DatasetIndex:
        """The index of tar shards, with parts and keys; built at the first use if another tool prepared the dataset.

        Raises:
            ConfigError: The shards are not tar files.
            FormatError: The index is damaged.
        """
        if self.records is not None:
            raise ConfigError(
                f"expected a dataset of tar shards, found one of {self.records.format} files, whose samples have no "
                "names to look up",
                at=self.path,
                hint="mix this dataset with others by a blend; for joins and auxiliary stores, pack it into tar shards",
            )
        found = current_index(self.storage, self.shard_counts)
        if found is not None:
            found.check_sizes() if self._reads_samples else found.check()
            return found
        from .compat.foreign_index import build_foreign_index  # loads SQLite, which few datasets need

        return build_foreign_index(self.storage, self.shard_counts)

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
        shard, records = self.index.shard_of(sample), self.records
        if self._open_shard is None or self._open_shard[0] != shard.name:
            self.close()
            if records is None:
                file = open_fresh_shard(self.storage, self.tar_index, shard)
            else:
                file = records.file(records.place(sample)[0]).open()
            self._open_shard = (shard.name, file)
        file = self._open_shard[1]
        if records is not None:
            place, within = records.place(sample)
            parts = read_record(records.file(place), file, within, max_json_bytes=max_json_bytes)
            return {name: value for name, value in parts.items() if names is None or name in names}
        return read_sample(
            file,
            self.tar_index.parts(sample),
            shard=self.storage.path(shard.name),
            names=names,
            max_json_bytes=max_json_bytes,
        )

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

    def close(self) -> None:
        """Close the open shard."""
        if self._open_shard is not None:
            self._open_shard[1].close()
            self._open_shard = None


def _ends(numbers: range) -> tuple[int, int]:
    return numbers.start, numbers.stop
