"""Datasets of numbered samples: folders of JSONL or Parquet files, and single JSONL, token or Parquet files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..arrays import IntArray
from ..cached_property import cached_property
from ..errors import EmptyDatasetError
from ..format.dataset_ref import DatasetRef
from ..format.documents.providers import data_path, format_of
from ..format.filters.rows import FilterRows, open_file_filter
from ..format.index.layout import ShardEntry
from ..format.index.locations import SampleLocations
from ..format.records.folder_index import RecordIndex, layout_of, open_record_index
from ..format.records.record_file import open_record_path, read_record
from ..storage import ReadableFile
from .dataset import Dataset, PartPlace

_KEPT_BYTES = 1 << 20  # of the sample that was read last: readers ask for its parts one after another


class RecordDataset(Dataset):
    """A prepared folder of JSONL or Parquet files."""

    has_store = False
    _last: tuple[int, dict[str, bytes]] | None = None

    @cached_property
    def records(self) -> RecordIndex:
        return open_record_index(self.storage, self.shard_counts)

    @property
    def index(self) -> RecordIndex:
        """The index of all samples."""
        return self.records

    @property
    def format(self) -> str:
        return format_of(next(iter(self.shard_counts)))

    def parts(self, sample: int) -> list[PartPlace]:
        return [PartPlace(name, len(data), None) for name, data in self._bytes(sample).items()]

    def read(self, sample: int, part: str, start: int = 0, stop: int | None = None) -> bytes:
        return self._bytes(sample)[part][start:stop]

    def read_parts(
        self, sample: int, names: Collection[str] | None = None, *, max_json_bytes: int | None = None
    ) -> dict[str, Any]:
        file, within = self.records.place(sample)
        parts = read_record(
            self.records.file(file),
            self.open_file(self.records.shards[file]),
            within,
            max_json_bytes=max_json_bytes,
        )
        return {name: value for name, value in parts.items() if names is None or name in names}

    @property
    def holds_values(self) -> bool:
        return not self.records.decodes

    @property
    def holds_lines(self) -> bool:
        return self.records.decodes

    def locator(self, wanted: Callable[[str], bool]) -> Callable[..., SampleLocations]:  # noqa: ARG002 - reads all
        return self.records.locate

    def stored_parts(self, file: ReadableFile, sample: int, wanted: Callable[[str], bool]) -> dict[str, Any]:  # noqa: ARG002
        return self.records.read(file, sample)

    @property
    def values(self) -> Callable[[Mapping[str, Any], int], dict[str, Any]]:
        return self.records.values

    def names_of_parts(self, sample: int) -> list[str]:  # noqa: ARG002 - all samples of a folder have the same
        return list(self.records.part_names)

    def open_shard(self, shard: ShardEntry) -> ReadableFile:
        return self.records.file(self.records.number_of(shard.name)).open()

    def _bytes(self, sample: int) -> dict[str, bytes]:
        last = self._last
        if last is None or last[0] != sample:
            last = sample, {name: as_bytes(value) for name, value in self.read_parts(sample).items()}
            self._last = last if sum(map(len, last[1].values())) <= _KEPT_BYTES else None
        return last[1]


class SingleFile(RecordDataset):
    """A file of numbered samples, without ``.nv-meta``: it has no split, columns or configuration.

    Args:
        ref: The file; of a JSONL or token file, the ``.idx`` next to it is read.

    Attributes:
        file: Name of the file in its folder.

    Raises:
        FormatError: It is damaged, or its index is missing or damaged.
        StorageError: It cannot be read.
    """

    split = split_file = config = uuid = None  # a file has no documents
    has_documents = False
    has_store = True

    def __init__(self, ref: DatasetRef) -> None:
        opened = open_record_path(data_path(ref.path))
        super().__init__(ref, opened.storage, {opened.name: len(opened)})
        self.path = opened.storage.path(opened.name)
        self.file = opened.name
        self._opened = opened

    @cached_property
    def records(self) -> RecordIndex:
        layout = layout_of(self.storage, self.shard_counts, opened=self._opened)
        uuid = f"{zlib.crc32(repr(layout.shards).encode()):08x}"
        return RecordIndex(self.storage, uuid, layout, opened=self._opened)

    def loaded_part(self, split_part: str) -> str:
        return split_part

    def full_key(self, sample: int) -> str:
        return str(sample)

    def place_of(self, sample: int) -> str:
        return f"{self.ref.path}, sample {sample}"

    def checksum(self, runs: Sequence[IntArray], start: int) -> int:  # noqa: ARG002 - the file is the split part
        return zlib.crc32(self._opened.fingerprint(), start)

    def no_samples(self, split_part: str, *, is_subset: bool, filter_name: str | None) -> EmptyDatasetError:  # noqa: ARG002
        what = "the subset of this file" if is_subset else "this file"
        kept = "" if filter_name is None else f" that the filter {filter_name!r} keeps"
        hint = "widen the subset, or remove the file from the mix"
        return EmptyDatasetError(f"{what} has no samples{kept}", at=self.ref.path, hint=hint)

    def column_names(self) -> list[str]:
        return []

    def samples_of_part(self, split_part: str, *, excluded_shards: bool = False) -> list[range]:  # noqa: ARG002
        """Return all samples: a file without a split serves as every split part, as in training."""
        return [range(len(self.records))]

    def open_filter(self, name: str) -> FilterRows:
        return open_file_filter(self.storage, self.file, name, len(self.records))


def as_bytes(value: Any) -> bytes:
    """Return the bytes of a part: those of a text in UTF-8, and those of other values as JSON; an array is a list."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return json.dumps(value, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)  # an array's text leaves out numbers
