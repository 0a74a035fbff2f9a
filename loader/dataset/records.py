"""Datasets of numbered samples: folders of JSONL or Parquet files, and single JSONL, token or Parquet files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from ..cached_property import cached_property
from ..format.data_kind import Kind, data_kind
from ..format.dataset_ref import DatasetRef
from ..format.index.layout import ShardEntry
from ..format.index.locations import SampleLocations
from ..format.records.folder_index import RecordIndex, layout_of, open_record_path
from ..format.records.record_file import RecordFile, read_record
from ..storage import ReadableFile
from .dataset import Dataset, Documents, NoDocuments, PartPlace

_KEPT_BYTES = 1 << 20  # of the sample that was read last: readers ask for its parts one after another


class RecordDataset(Dataset):
    """A prepared folder of JSONL or Parquet files."""

    kind: Kind = "folders of JSONL or Parquet files"
    has_store = False

    _last: tuple[int, dict[str, bytes]] | None = None

    def __init__(
        self,
        documents: Documents,
        shard_counts: Mapping[str, int],
        open_index: Callable[[], RecordIndex],
        *,
        rechecks: bool = False,
    ) -> None:
        super().__init__(documents, shard_counts, rechecks=rechecks)
        self.format = data_kind(next(iter(shard_counts))).format
        self.holds_lines = self.format == "jsonl"
        self.holds_values = not self.holds_lines
        self._open_index = open_index

    @cached_property
    def index(self) -> RecordIndex:
        return self._open_index()

    def parts(self, sample: int) -> list[PartPlace]:
        return [PartPlace(name, len(data), None) for name, data in self._bytes(sample).items()]

    def names_of_parts(self, sample: int) -> list[str]:  # noqa: ARG002 - all samples have the same
        return list(self.index.part_names)

    def read(self, sample: int, part: str, start: int = 0, stop: int | None = None) -> bytes:
        return self._bytes(sample)[part][start:stop]

    def read_parts(
        self, sample: int, names: Collection[str] | None = None, *, max_json_bytes: int | None = None
    ) -> dict[str, Any]:
        file, within = self.index.place(sample)
        parts = read_record(
            self.index.file(file),
            self.open_file(self.index.shards[file]),
            within,
            wanted=None if names is None else names.__contains__,
            max_json_bytes=max_json_bytes,
        )
        return {name: value for name, value in parts.items() if names is None or name in names}

    def locator(self, wanted: Callable[[str], bool]) -> Callable[..., SampleLocations]:  # noqa: ARG002 - of all
        return self.index.locate

    def stored_parts(self, file: ReadableFile, sample: int, wanted: Callable[[str], bool]) -> dict[str, Any]:
        return self.index.read(file, sample, wanted)

    def open_shard(self, shard: ShardEntry) -> ReadableFile:
        return self.index.file(self.index.number_of(shard.name)).open()

    def _bytes(self, sample: int) -> dict[str, bytes]:
        last = self._last
        if last is None or last[0] != sample:
            last = sample, {name: as_bytes(value) for name, value in self.read_parts(sample).items()}
            self._last = last if sum(map(len, last[1].values())) <= _KEPT_BYTES else None
        return last[1]


class SingleFile(RecordDataset):
    """A file of numbered samples, without ``.nv-meta``: it has no split, columns or configuration.

    Args:
        ref: The file; of a token file, the ``.idx`` next to it is read, and of a JSONL file if it has one.
    """

    is_file = has_store = True

    def __init__(self, ref: DatasetRef) -> None:
        opened = open_record_path(ref.path)
        storage, counts = opened.storage, {opened.name: len(opened)}
        open_index = partial(_index_of_file, opened, counts)
        super().__init__(NoDocuments(ref, storage, counts, open_index), counts, open_index)
        self.path = storage.path(opened.name)
        self.file = opened.name
        self.kind = data_kind(opened.name).plural

    def full_key(self, sample: int) -> str:
        return str(sample)

    def place_of(self, sample: int) -> str:
        return f"{self.ref.path}, sample {sample}"


def _index_of_file(opened: RecordFile, shard_counts: Mapping[str, int]) -> RecordIndex:
    layout = layout_of(opened.storage, shard_counts, opened=opened)
    return RecordIndex(opened.storage, f"{zlib.crc32(repr(layout.shards).encode()):08x}", layout, opened=opened)


def is_media_value(value: Any) -> bool:
    """Return True for a picture, sound or video of a table: a dict of ``bytes`` and a ``path``."""
    return isinstance(value, dict) and value.keys() <= {"bytes", "path"} and isinstance(value.get("bytes"), bytes)


def as_bytes(value: Any) -> bytes:
    """Return the bytes of a part: a text as UTF-8, media as they are, others as JSON; an array is a list."""
    if is_media_value(value):
        value = value["bytes"]
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return json.dumps(value, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)  # an array's text leaves out numbers
