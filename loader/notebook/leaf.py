"""One dataset of an opened one: the bytes of its samples, and where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..dataset.query import SampleQuery, find_samples, samples_of_keys
from ..dataset.records import as_bytes
from ..engine.workers import usable_cores
from ..errors import SampleError
from ..format.documents.providers import format_of
from ..format.records.folder_index import RecordIndex
from ..inspect.stats import compute_values
from ..pipeline.reading.source import Source
from ..stores.file_store import MissingFileError


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRange:
    """The bytes of a part in its shard.

    Attributes:
        offset: First byte in the shard; None for a value of a Parquet file.
        size_bytes: Number of bytes; of a line of a JSONL file with its line break.
    """

    offset: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLocation:
    """The place of a sample's bytes.

    Attributes:
        dataset: Path or URL of the dataset.
        shard: Path or URL of the shard.
        key: Its key in the shard.
        number: Its number in the index of the dataset.
        parts: Part name → the bytes of the part.
        joined: The locations of the other samples of a row of a join.
    """

    dataset: str
    shard: str
    key: str
    number: int
    parts: dict[str, PartRange]
    joined: tuple[SampleLocation, ...] = ()


@dataclass(frozen=True)
class Leaf:
    """One dataset, file or join of an opened dataset."""

    source: Source  # reads and builds its samples
    split: str | None = None  # the split of the metadataset that names it; None without a metadataset

    @property
    def first(self) -> Dataset:
        """The dataset, of a join the first member: it has the keys, columns and filters."""
        return self.source.selection.first

    def find(self, query: SampleQuery) -> IntArray:
        """Return the samples, or rows, whose sample in the first dataset a query chooses; ascending."""
        compute = partial(compute_values, workers=usable_cores())
        return self.source.selection.with_first(find_samples(self.first, replace(query, compute=compute)))

    def find_keys(self, keys: Sequence[str]) -> dict[str, IntArray]:
        """Return the samples, or rows, of each key, ascending; a key may also be the name of a shard."""
        by_key = samples_of_keys(self.first, keys)
        return {key: self.source.selection.with_first(np.asarray(some, np.int64)) for key, some in by_key.items()}

    def parts(self, index: int, names: Sequence[str] | None = None) -> dict[str, bytes]:
        """Read parts of a sample or row, as bytes: those named that it has; all without names."""
        return {name: _stored_bytes(value) for name, value in self.source.folder.read_parts(index, names).items()}

    def read(self, index: int, part: str, start: int, stop: int | None) -> bytes:
        """Read a range of the bytes of a part."""
        # Ask the dataset for the range, so that no more than it is read.
        dataset = self.source.folder
        try:
            if format_of(self.first.path) == "binidx":  # of which a dataset reads the text
                return _stored_bytes(dataset.read_parts(index)[part])[start:stop]
            return dataset.read(index, part, start, stop)
        except KeyError as error:
            if isinstance(error, SampleError):
                raise
        # The key was of no part: name the parts that there are.
        known = ", ".join(each.name for each in dataset.parts(index))
        raise MissingFileError(f"there is no part {part!r}; the sample has: {known}", at=dataset.place_of(index))

    def where_is(self, index: int) -> SampleLocation:
        """Return where the bytes of a sample or row lie, without reading them."""
        first, *others = (_location(member.dataset, member.number) for member in self.source.folder.members_of(index))
        return replace(first, joined=tuple(others))


def _stored_bytes(value: Any) -> bytes:
    """Return the bytes of a part: of tokens as they are stored, of a text in UTF-8, of other values as JSON."""
    return value.tobytes() if isinstance(value, np.ndarray) else as_bytes(value)


def _location(dataset: Dataset, index: int) -> SampleLocation:
    shard = dataset.index.shard_of(index)
    return SampleLocation(
        dataset=dataset.path,
        shard=dataset.storage.path(shard.name),
        key=dataset.index.key(index),
        number=index,
        parts=_ranges(dataset, index),
    )


def _ranges(dataset: Dataset, index: int) -> dict[str, PartRange]:
    """Return the ranges of parts; of a line or a document, its own; of the values of a row, only their sizes."""
    if isinstance(dataset.index, RecordIndex):
        record = dataset.index.locate(np.array([index]))
        if record.size_bytes[0] >= 0:
            return {record.part_name[0]: PartRange(offset=int(record.start[0]), size_bytes=int(record.size_bytes[0]))}
    return {part.name: PartRange(offset=part.offset, size_bytes=part.size_bytes) for part in dataset.parts(index)}
