"""A file of numbered samples as a source: JSONL, tokens or Parquet; each sample is a crude one."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import EmptyDatasetError
from ...format.documents.load_request import LoadRequest, resolve_key_format
from ...format.documents.subset import resolve_subset
from ...format.filters.rows import FilterRows, open_file_filter
from ...format.index.locations import SampleLocations
from ...format.records.record_file import RecordFile, locations_of, open_record_path, record_number
from ...samples.building.sample_builder import RawSample, SampleBuilder, sources_of
from ...samples.decoding.decoder import AnyDecoder, SampleDecoder
from ...samples.source_info import SourceInfo
from ...samples.types import CrudeSample
from ...storage import ReadableFile
from .source import SourceStores


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordSource:
    """The samples of one file; every split part has all of them.

    Args:
        request: The file and its subset.
        decoder: Decoder of the json in JSONL files; None leaves it bytes.
    """

    request: LoadRequest
    decoder: AnyDecoder | None = field(default_factory=SampleDecoder)
    sample_bytes = 0
    """Average size of a sample in bytes, which decides how many are fetched ahead."""
    is_remote = False
    """False: records are read when they are used."""
    is_crude = True
    is_one_shard = True
    """True: samples are dicts of parts, for cookers."""
    accepts_options = False
    """False: a file names no dataset class."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def _file(self) -> RecordFile:
        return open_record_path(self.request.path)

    @cached_property
    def filter(self) -> FilterRows | None:
        """The filter that selects samples; None keeps all.

        Raises:
            ConfigError: There is no such filter.
            FormatError: The filter is damaged, or of another file.
        """
        if self.request.filter is None:
            return None
        return open_file_filter(self._file.storage, self._file.name, self.request.filter, len(self._file))

    @cached_property
    def builder(self) -> SampleBuilder:
        decoder = self.decoder if self._file.decodes else None
        key_format = resolve_key_format(self.request.key_format, None)
        return SampleBuilder(None, meta_folder=Path(), decoder=decoder, key_format=key_format)

    @cached_property
    def _make(self) -> Callable[[RawSample, tuple[Any, ...]], Any]:
        return self.builder.raw_builder(self.request.path, self.request.subflavors)

    @cached_property
    def samples(self) -> int:
        """Number of samples in the subset.

        Raises:
            FormatError: The file or its index is damaged.
            EmptyDatasetError: The subset has no samples.
        """
        start, stop = self._subset
        if stop <= start:
            what = "the subset of this file" if self.request.subset else "this file"
            kept = f" that the filter {self.request.filter!r} keeps" if self.request.filter else ""
            raise EmptyDatasetError(
                f"{what} has no samples{kept}",
                at=self.request.path,
                hint="widen the subset, or remove the file from the mix",
            )
        return stop - start

    @cached_property
    def _subset(self) -> tuple[int, int]:
        samples = len(self._file if self.filter is None else self.filter)
        return resolve_subset(self.request.subset, samples, at=self.request.path)

    @property
    def largest_shard(self) -> int:
        """Number of samples in the file."""
        return len(self._file)

    @property
    def sample_class(self) -> type[Any]:
        """The class of the samples."""
        return CrudeSample

    @property
    def stores(self) -> SourceStores:
        """Stores that a cooker may use in addition to the sample."""
        return SourceStores(
            path=self.request.path,
            aux_urls=self.request.aux,
            aux_meta_folders=self.request.aux_meta_folders,
            decoder=self.decoder,
        )

    @property
    def kept_share(self) -> float:
        """Share of the samples that the filter keeps, in [0, 1]; 1 without a filter."""
        return 1.0 if self.filter is None else len(self.filter) / max(1, len(self._file))

    @property
    def ranges(self) -> tuple[IntArray, IntArray]:
        """The one run of samples: its first number in the source, and in the file or the filter's rows."""
        return np.zeros(1, np.int64), np.array([self._subset[0]])

    @property
    def excluded(self) -> IntArray:
        """No samples: only a split file can exclude some."""
        return np.empty(0, np.int64)

    @property
    def shard_names(self) -> list[str]:
        """Name of the file."""
        return [self._file.name]

    @property
    def shard_starts(self) -> list[int]:
        """0: the file has all samples."""
        return [0]

    def bare_key(self, index: int) -> str:
        """Return the number of a sample, as text."""
        return str(index)

    def locate(self, indexes: IntArray, found: SampleLocations | None = None) -> SampleLocations:
        """Locate samples; append them to ``found`` if it is given.

        Raises:
            FormatError: The index is damaged.
        """
        file = self._file
        file.expect(indexes)
        located = locations_of(
            indexes,
            keys=indexes,
            shard=np.zeros(len(indexes), np.int64),
            spans=file.spans(indexes),
            part=file.part_names[0],
        )
        if found is None:
            return located
        found.extend(located)
        return found

    def shard_path(self, shard: int) -> str:  # noqa: ARG002 - there is only one
        """Return the path of the file, for messages."""
        return self._file.storage.path(self._file.name)

    def open_shard(self, shard: int) -> ReadableFile:  # noqa: ARG002 - there is only one
        """Open the file.

        Raises:
            FormatError: It has changed since it was indexed or opened.
            StorageError: It is missing or cannot be read.
        """
        return self._file.open()

    def read_far_apart(self, file: ReadableFile, index: int) -> dict[str, Any]:
        """Read a sample that is not one byte range."""
        return self._file.read(file, index)

    def build(self, raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
        """Build a sample.

        Raises:
            SampleError: It does not decode.
        """
        return self._make(raw._replace(parts=self._file.values(raw.parts, raw.number)), restore_key)

    def key_of(self, raw: RawSample) -> str:
        """Return the ``__key__`` of a raw sample."""
        return self.builder.key_of(raw)

    def sources(self, raw: RawSample) -> tuple[SourceInfo, ...]:
        """Return the file and sample number that a sample was read from."""
        return sources_of(raw, self.request.path)

    def place_of(self, index: int) -> str:
        """Describe the location of a sample by its number."""
        return f"{self.request.path}, sample {index}"

    def full_key(self, index: int) -> str:
        """Return the number of a sample: files of samples have no other key."""
        return str(index)

    def find(self, key: str) -> list[int]:
        """Return the number that a key names: ``"3"`` or ``"texts.jsonl/3"``."""
        number = record_number(key, self._file.name, len(self._file))
        return [] if number is None else [number]

    def identity(self) -> dict[str, Any]:
        """Return plain data that differs for other samples; compared when a state is restored."""
        which = self._file.fingerprint() + np.array(self._subset, np.uint64).tobytes()
        kept = self.filter
        return {
            "path": self.request.path,
            "samples": self.samples,
            "which": zlib.crc32(which, 0 if kept is None else kept.checksum),
            **({} if kept is None else {"filter": kept.name}),
        }

    def describe(self) -> str:
        """Describe the source in one line."""
        kept = f", filter {self.request.filter}" if self.request.filter else ""
        return f"{self.request.path}{kept}: {self.samples} samples"
