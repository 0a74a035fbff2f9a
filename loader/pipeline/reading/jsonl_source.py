"""A JSONL file as a source: each line is a crude sample with the single part ``json``."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import EmptyDatasetError, FormatError
from ...format.documents.key_format import resolve_key_format
from ...format.documents.load_request import LoadRequest
from ...format.documents.subset import resolve_subset
from ...format.filters.rows import FilterRows, open_file_filter
from ...format.index.locations import SampleLocations
from ...format.jsonl.index import JsonlIndex, open_jsonl_index
from ...format.jsonl.lines import BYTE_ORDER_MARK
from ...samples.building.sample_builder import RawSample, SampleBuilder, sources_of
from ...samples.decoding.decoder import AnyDecoder, SampleDecoder
from ...samples.source_info import SourceInfo
from ...samples.types import CrudeSample
from ...storage import ReadableFile, Storage, open_storage
from .source import SourceStores

__all__ = ["JsonlSource"]

_PART = "json"


@dataclass(frozen=True, kw_only=True, eq=False)
class JsonlSource:
    """The lines of a JSONL file; every split part has all of them.

    Args:
        request: The file, whose index is next to it, and its subset.
        decoder: Decoder of the json; None leaves it bytes.
    """

    request: LoadRequest
    decoder: AnyDecoder | None = field(default_factory=SampleDecoder)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def _file(self) -> tuple[Storage, str]:
        folder, name = os.path.split(self.request.path)
        return open_storage(folder or "."), name

    @cached_property
    def _index(self) -> JsonlIndex:
        return open_jsonl_index(*self._file)

    @cached_property
    def filter(self) -> FilterRows | None:
        """The filter that selects samples; None keeps all.

        Raises:
            ConfigError: There is no such filter.
            FormatError: The filter is damaged, or of another file.
        """
        if self.request.filter is None:
            return None
        return open_file_filter(*self._file, self.request.filter, len(self._index))

    @cached_property
    def _builder(self) -> SampleBuilder:
        key_format = resolve_key_format(self.request.key_format, None)
        return SampleBuilder(None, meta_folder=Path(), decoder=self.decoder, key_format=key_format)

    @cached_property
    def _make(self) -> Callable[[RawSample, tuple[Any, ...]], Any]:
        return self._builder.raw_builder(self.request.path, self.request.subflavors)

    @cached_property
    def samples(self) -> int:
        """Number of samples in the subset.

        Raises:
            FormatError: The file has no index, or the index of another file.
            EmptyDatasetError: The subset has no samples.
        """
        start, stop = self._subset
        if stop <= start:
            kept = f" that the filter {self.request.filter!r} keeps" if self.request.filter else ""
            raise EmptyDatasetError(
                f"the subset of this file has no samples{kept}",
                at=self.request.path,
                hint="widen the subset, or remove the file from the mix",
            )
        return stop - start

    @cached_property
    def _subset(self) -> tuple[int, int]:
        samples = len(self._index if self.filter is None else self.filter)
        return resolve_subset(self.request.subset, samples, at=self.request.path)

    @property
    def largest_shard(self) -> int:
        """Number of samples in the file."""
        return len(self._index)

    @property
    def is_crude(self) -> bool:
        """True: samples are dicts of parts, for cookers."""
        return True

    @property
    def sample_class(self) -> type[Any]:
        """The class of the samples."""
        return CrudeSample

    @property
    def accepts_options(self) -> bool:
        """False: a file names no dataset class."""
        return False

    @property
    def stores(self) -> SourceStores:
        """Stores that a cooker may use in addition to the sample."""
        return SourceStores(aux_urls=self.request.aux, decoder=self.decoder)

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
        return [self._file[1]]

    def locate(self, indexes: IntArray, found: SampleLocations | None = None) -> SampleLocations:
        """Locate the lines of samples; append them to ``found`` if it is given.

        Raises:
            FormatError: The index is damaged.
        """
        offsets, n = self._index.offsets, len(indexes)
        start, stop = offsets[indexes].astype(np.int64), offsets[indexes + 1].astype(np.int64)
        if not ((start >= 0) & (start < stop) & (stop <= int(offsets[-1]))).all():
            raise FormatError(
                "the index of this file is damaged: its offsets do not ascend",
                shard=self.shard_path(0),
                hint=f"run: energon prepare {self.request.path}",
            )
        size = stop - start
        samples = indexes.tolist()
        lines = SampleLocations(
            sample=samples,
            key=list(map(str, samples)),
            shard=np.zeros(n, np.int64),
            start=start,
            size_bytes=size,
            first_part=range(n + 1),
            part_name=[_PART] * n,
            part_start=np.zeros(n, np.int64),
            part_stop=size,
        )
        if found is None:
            return lines
        found.extend(lines)
        return found

    def shard_path(self, shard: int) -> str:  # noqa: ARG002 - there is only one
        """Return the path of the file, for messages."""
        storage, name = self._file
        return storage.path(name)

    def open_shard(self, shard: int) -> ReadableFile:
        """Open the file.

        Raises:
            FormatError: Its size has changed since it was indexed.
            StorageError: It is missing or cannot be read.
        """
        storage, name = self._file
        file = storage.open(name)
        if file.size_bytes != int(self._index.offsets[-1]):
            file.close()
            raise FormatError(
                f"the file has changed since it was indexed: it had {int(self._index.offsets[-1])} bytes, "
                f"now {file.size_bytes}",
                shard=self.shard_path(shard),
                hint=f"run: energon prepare {self.request.path}",
            )
        return file

    def read_far_apart(self, file: ReadableFile, index: int) -> dict[str, bytes]:
        """Read a line, which is a single part."""
        start, stop = self._index.offsets[index : index + 2].tolist()
        return {_PART: file.read_at(start, stop - start)}

    def build(self, raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
        """Build a sample.

        Raises:
            SampleError: The line is not JSON.
        """
        line = raw.parts[_PART].strip()
        parts = {_PART: line if raw.number else line.removeprefix(BYTE_ORDER_MARK)}
        return self._make(raw._replace(parts=parts), restore_key)

    def key_of(self, raw: RawSample) -> str:
        """Return the ``__key__`` of a raw sample."""
        return self._builder.key_of(raw)

    def sources(self, raw: RawSample) -> tuple[SourceInfo, ...]:
        """Return the file and line that a sample was read from."""
        return sources_of(raw, self.request.path)

    def place_of(self, index: int) -> str:
        """Describe the location of a sample by its number."""
        return f"{self.request.path}, sample {index}"

    def identity(self) -> dict[str, Any]:
        """Return plain data that differs for other samples; compared when a state is restored."""
        offsets = self._index.offsets
        ends = np.concatenate([offsets[:1024], offsets[-1024:], np.array(self._subset, np.uint64)])
        kept = self.filter
        return {
            "path": self.request.path,
            "samples": self.samples,
            "which": zlib.crc32(ends.tobytes(), 0 if kept is None else kept.checksum),
            **({} if kept is None else {"filter": kept.name}),
        }

    def describe(self) -> str:
        """Describe the source in one line."""
        kept = f", filter {self.request.filter}" if self.request.filter else ""
        return f"{self.request.path}{kept}: {self.samples} samples"
