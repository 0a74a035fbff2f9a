"""Find the places of samples in their shards: ranges of bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..dataset.dataset import Dataset
from ..dataset.join import AnyDataset
from ..format.records.folder_index import RecordIndex


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


def location_of(folder: AnyDataset, index: int) -> SampleLocation:
    """Return where the bytes of a sample or row lie, without reading them."""
    first, *others = (_location(member.dataset, member.number) for member in folder.members_of(index))
    return replace(first, joined=tuple(others))


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
