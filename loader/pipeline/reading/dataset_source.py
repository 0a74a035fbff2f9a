"""A prepared dataset as a source: a split part, or a subset of one."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...dataset.dataset import Dataset
from ...dataset.opening import folder_at
from ...errors import EmptyDatasetError, FormatError
from ...format.dataset_ref import DatasetRef
from ...format.documents.load_request import LoadRequest, resolve_key_format
from ...format.documents.next_command import split_hint
from ...format.documents.subset import resolve_subset
from ...format.filters.rows import FilterRows
from ...format.index.fresh_shard import open_fresh_shard
from ...format.index.locations import SampleLocations, SampleLocator
from ...format.index.sample_bytes import read_sample
from ...format.nv_meta import DATASET_YAML, FOLDER
from ...format.records.folder_index import RecordIndex
from ...samples.building.described_dataset import DescribedDataset
from ...samples.building.sample_builder import RawSample, SampleBuilder, sources_of
from ...samples.decoding.decoder import AnyDecoder, SampleDecoder
from ...samples.source_info import SourceInfo
from ...samples.types import CrudeSample
from ...storage import EPath, ReadableFile
from .source import SourceStores


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetSource:
    """A split part of a prepared dataset; open handles are dropped when it is pickled.

    Args:
        request: The dataset, its split part and subset.
        decoder: Decoder of the parts; None leaves them bytes.
        described: Description of the samples that replaces ``dataset.yaml``.
    """

    request: LoadRequest
    decoder: AnyDecoder | None = field(default_factory=SampleDecoder)
    described: DescribedDataset[Any] | None = None

    _uuid: str | None = field(default=None, init=False)
    """UUID of the index that the sending process used; checked by the process that unpickles this source."""

    def __getstate__(self) -> dict[str, Any]:
        opened: Dataset | None = self.__dict__.get("folder")
        uuid = self._uuid if opened is None else opened.index.uuid
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"_uuid": uuid}

    @cached_property
    def folder(self) -> Dataset:
        """The opened dataset.

        Raises:
            FormatError: It was prepared again since another process counted its samples.
        """
        request = self.request
        folder = folder_at(
            DatasetRef(
                request.path,
                split_config=request.split_config,
                dataset_config=request.dataset_config,
                meta_folder=request.meta_folder,
            ),
            reads_samples=True,
        )
        if self._uuid is not None and folder.index.uuid != self._uuid:
            raise FormatError(
                "this dataset was prepared again since it was opened: its samples may have other numbers now",
                at=folder.path,
                hint="restart the program",
            )
        return folder

    @cached_property
    def builder(self) -> SampleBuilder:
        """Builder of samples from their parts."""
        folder, described = self.folder, self.described
        holds_values = self._records is not None and not self._records.decodes
        if described is not None and holds_values:
            described = described.without_decoder()
        of_dataset = folder.config.key_format if folder.config is not None else None
        builder = SampleBuilder(
            described if described is not None else folder.config,
            meta_folder=EPath(folder.storage.path(FOLDER)),
            dataset_path=EPath(folder.storage.path("")),
            decoder=None if holds_values else self.decoder,
            trust_code=self.request.trust_code,
            key_format=resolve_key_format(self.request.key_format, of_dataset),
            sample_type=self.request.sample_type,
            options=self.request.options,
        )
        builder.part_names = self._part_names
        if described is None and folder.config is not None and folder.config.field_map is not None:
            builder.config_file = EPath(folder.storage.path(f"{FOLDER}/{self.request.dataset_config or DATASET_YAML}"))
        return builder

    def _part_names(self, index: int) -> list[str]:
        """Return the names of all parts of a sample, also of those that are not read."""
        if self._records is not None:
            return list(self._records.part_names)
        return [part.name for part in self.folder.tar_index.parts(index)]

    @property
    def _records(self) -> RecordIndex | None:
        """The index if the shards are JSONL or Parquet files."""
        return self.folder.records

    @property
    def sample_bytes(self) -> int:
        """Average size of a sample in bytes, which decides how many are fetched ahead."""
        layout = self.folder.index.layout
        return sum(part.total_bytes for part in layout.part_stats) // max(1, layout.samples)

    @property
    def is_remote(self) -> bool:
        """True if samples are fetched from an object store."""
        return self._records is None and self.folder.storage.checks_versions

    @property
    def is_crude(self) -> bool:
        """True if samples are dicts of parts, for cookers."""
        return issubclass(self.builder.sample_class, CrudeSample)

    @property
    def sample_class(self) -> type[Any]:
        """The class of the samples."""
        return self.builder.sample_class

    @property
    def accepts_options(self) -> bool:
        """True if a dataset class of the user's received the caller's other arguments."""
        return self.builder.has_dataset_class

    @cached_property
    def locate(self) -> Callable[..., SampleLocations]:
        """Function that locates the needed parts of samples, by their numbers in the index."""
        if self._records is not None:
            return self._records.locate
        index = self.folder.tar_index
        return SampleLocator(index, [name for name in index.part_names if self.builder.part_filter(name)])

    @cached_property
    def shard_names(self) -> list[str]:
        """Names of the dataset's shards, by number."""
        return [shard.name for shard in self.folder.index.shards]

    @property
    def shard_starts(self) -> list[int]:
        """Number of the first sample of each shard, in the index."""
        return [shard.first_sample for shard in self.folder.index.shards]

    def bare_key(self, index: int) -> str:
        """Return the key of a sample in its shard, by its number in the index."""
        return self.folder.index.key(index)

    @property
    def stores(self) -> SourceStores:
        """Stores that a cooker may use in addition to the sample."""
        return SourceStores(
            path=self.request.path if self._records is None else None,
            meta_folder=self.request.meta_folder,
            aux_urls=self.request.aux,
            aux_meta_folders=self.request.aux_meta_folders,
            decoder=self.decoder,
            trust_code=self.request.trust_code,
        )

    def shard_path(self, shard: int) -> str:
        """Return the path of a shard, for messages."""
        return self.folder.storage.path(self.shard_names[shard])

    def open_shard(self, shard: int) -> ReadableFile:
        """Open a shard, and check that it has not changed since it was indexed.

        Raises:
            FormatError: It has changed.
            StorageError: It is missing or cannot be read.
        """
        if self._records is not None:
            return self._records.file(shard).open()
        folder = self.folder
        return open_fresh_shard(folder.storage, folder.tar_index, folder.index.shards[shard])

    def read_far_apart(self, file: ReadableFile, index: int) -> dict[str, Any]:
        """Read the parts of a sample one by one; they are too far apart for one read.

        Raises:
            FormatError: The shard ends within a part.
        """
        if self._records is not None:
            return self._records.read(file, index)
        folder = self.folder
        locations = [part for part in folder.tar_index.parts(index) if self.builder.part_filter(part.name)]
        return read_sample(file, locations, shard=folder.storage.path(folder.index.shard_of(index).name))

    @cached_property
    def build(self) -> Callable[[RawSample, tuple[Any, ...]], Any]:
        """Function that builds a sample from a raw sample and its restore key.

        It raises SampleError if a part does not decode, or a field is missing.
        """
        build = self.builder.raw_builder(self.request.path, self.request.subflavors)
        if self._records is None:
            return build
        values, wanted = self._records.values, self.builder.part_filter

        def build_record(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
            parts = {name: value for name, value in values(raw.parts, raw.number).items() if wanted(name)}
            return build(raw._replace(parts=parts), restore_key)

        return build_record

    def key_of(self, raw: RawSample) -> str:
        """Return the ``__key__`` of a raw sample."""
        return self.builder.key_of(raw)

    def sources(self, raw: RawSample) -> tuple[SourceInfo, ...]:
        """Return the shard and part names that a sample was read from."""
        return sources_of(raw, self.request.path)

    @cached_property
    def filter(self) -> FilterRows | None:
        """The filters of the split part and of the run; None keeps all samples.

        Raises:
            ConfigError: There is no such filter.
            FormatError: The filter is damaged, or of other shards.
        """
        return self.folder.filter_of_part(self.request.split_part, self.request.filter)

    @property
    def kept_share(self) -> float:
        """Share of the samples that the filter keeps, in [0, 1]; 1 without a filter."""
        return 1.0 if self.filter is None else len(self.filter) / max(1, self.folder.index.layout.samples)

    @cached_property
    def _ranges(self) -> tuple[IntArray, IntArray]:
        """First sample of each shard in the split part (and, at the end, the total), and in the index or the filter."""
        part = self.request.split_part
        if self.filter is None:
            ranges = [some for some in self.folder.samples_of_part(part, excluded_shards=True) if len(some)]
        else:
            ranges = self.folder.rows_of_part(self.filter, part)
        ends = np.cumsum([0, *(len(some) for some in ranges)])
        return ends, np.array([some.start for some in ranges], dtype=np.int64)

    @cached_property
    def samples(self) -> int:
        """Number of samples in the subset of the split part, excluded ones included.

        Raises:
            ConfigError: There is no such split part.
            EmptyDatasetError: It is empty, or all its samples are excluded: an endless order would search forever for
                a sample to yield.
        """
        start, stop = self._subset
        if stop <= start:
            raise self._empty_error()
        count = stop - start
        if len(self.excluded) >= count and np.isin(self.index_numbers(), self.excluded).all():
            raise EmptyDatasetError(
                f"all {count} samples of split part {self.request.split_part!r} are excluded",
                at=self.folder.path,
                hint=f"remove some from 'exclude' in {FOLDER}/{self.folder.split_file}",
            )
        return count

    def _empty_error(self) -> EmptyDatasetError:
        part, name, whole = self.request.split_part, self.request.filter, not self.request.subset
        found = f"{'' if whole else 'the subset of '}split part {part!r} of this dataset has no samples"
        hint = (
            f"name another split part, or {split_hint(self.folder.path)}"
            if whole
            else "widen the subset, or remove the dataset from the mix"
        )
        if name is not None:
            found, hint = f"{found} that the filter {name!r} keeps", "name another filter or split part, or none"
        return EmptyDatasetError(found, at=self.folder.path, hint=hint)

    @cached_property
    def _subset(self) -> tuple[int, int]:
        samples = int(self._ranges[0][-1])
        if not self.request.subset:
            return 0, samples
        return resolve_subset(self.request.subset, samples, at=self.folder.path)

    @cached_property
    def largest_shard(self) -> int:
        """Number of samples in the largest shard of the split part."""
        return int(np.diff(self._ranges[0]).max(initial=1))

    @property
    def is_one_shard(self) -> bool:
        start, stop = self._subset
        first, last = np.searchsorted(self._ranges[0], (start, stop - 1), side="right")
        return bool(first == last)

    @cached_property
    def excluded(self) -> IntArray:
        """Numbers in the index of all samples that the split excludes, ascending."""
        return self.folder.excluded_samples()

    @cached_property
    def ranges(self) -> tuple[IntArray, IntArray]:
        """Runs of neighbours in the index, or in the filter's rows: first number of each in the source, and there."""
        ends, starts = self._ranges
        first, stop = self._subset
        rows = (ends[1:] > first) & (ends[:-1] < stop)
        skipped = np.maximum(first - ends[:-1][rows], 0)
        return ends[:-1][rows] + skipped - first, starts[rows] + skipped

    def index_numbers(self) -> IntArray:
        """Return the numbers in the index of all samples of the source."""
        begins, firsts = self.ranges
        stop = self._subset[1] - self._subset[0]
        lengths = np.diff(begins, append=stop)
        numbers = np.arange(stop) + np.repeat(firsts - begins, lengths)
        return numbers if self.filter is None else self.filter.numbers(numbers)

    def place_of(self, index: int) -> str:
        """Describe the location of a sample by its number in the index, without reading it."""
        return f"{self.full_key(index)!r} of {self.request.path}"

    def full_key(self, index: int) -> str:
        """Return ``shard/key`` of a sample by its number in the index."""
        return self.folder.index.full_key(index)

    def find(self, key: str) -> list[int]:
        """Return the numbers in the index of the samples that have a key, ascending."""
        return self.folder.index.find(key)

    def identity(self) -> dict[str, Any]:
        """Return plain data that differs for other samples; compared when a state is restored."""
        return {
            "path": self.request.path,
            "uuid": self.folder.index.uuid,
            "split_part": self.request.split_part,
            "samples": self.samples,
            "which": self._which_samples(),
            **({} if self.filter is None else {"filter": self.filter.name}),
        }

    def describe(self) -> str:
        """Describe the source in one line."""
        kept = f", filter {self.request.filter}" if self.request.filter else ""
        part = self.request.split_part or "all parts"
        return f"{self.request.path}, {part}{kept}: {self.samples} samples"

    def _which_samples(self) -> int:
        """Return a checksum that differs for other samples of the same index and count."""
        ends, starts = self._ranges
        kept = 0 if self.filter is None else self.filter.checksum
        return zlib.crc32(
            np.array(self._subset, np.int64).tobytes(), zlib.crc32(starts.tobytes(), zlib.crc32(ends.tobytes(), kept))
        )
