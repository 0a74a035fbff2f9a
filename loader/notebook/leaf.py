"""One dataset of an opened one: the bytes of its samples, and where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from ..dataset.dataset import Dataset
from ..dataset.query import SampleQuery, find_samples, samples_of_keys
from ..dataset.records import as_bytes
from ..errors import SampleError
from ..format.documents.providers import format_of
from ..pipeline.reading.dataset_source import DatasetSource
from ..pipeline.reading.joined_source import JoinedSource
from ..pipeline.reading.source import Source
from ..stores.file_store import MissingFileError


class WholeDataset(DatasetSource):
    """A dataset whose samples are all there, excluded ones too: nothing is drawn from it in an endless order."""

    @cached_property
    def samples(self) -> int:
        """Number of samples in the index."""
        return len(self.folder.index)


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


class _Member(NamedTuple):
    """One sample of a row: the prefix of its parts' names, its dataset, and its number there."""

    prefix: str
    dataset: Dataset
    source: DatasetSource
    number: int


class Leaf:
    """One dataset, file or join of an opened dataset.

    Args:
        source: Reads and builds its samples.
        split: The split of the metadataset that names it; None without a metadataset.
    """

    def __init__(self, source: Source, split: str | None = None) -> None:
        self.source = source
        self.split = split

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "split": self.split}

    @cached_property
    def datasets(self) -> tuple[Dataset, ...]:
        """The dataset; of a join, its members."""
        return tuple(source.folder for source in self._sources if isinstance(source, DatasetSource))

    @property
    def first(self) -> Dataset:
        """The dataset, of a join the first member: it has the keys, columns and filters."""
        return self.datasets[0]

    @property
    def _sources(self) -> Sequence[Source]:
        return self.source.members if isinstance(self.source, JoinedSource) else (self.source,)

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        if not isinstance(self.source, JoinedSource):
            return ("",)
        names = self.source.names or tuple(map(str, range(len(self.datasets))))
        return tuple(f"{name}/" for name in names)

    @property
    def part_names(self) -> list[str]:
        """Names of the parts that samples may have; in a join, after the name of the member and a slash."""
        pairs = zip(self._prefixes, self.datasets, strict=True)
        return [f"{prefix}{name}" for prefix, dataset in pairs for name in dataset.index.part_names]

    def numbers(self, indexes: IntArray) -> IntArray:
        """Return the numbers in the first dataset of samples or rows, shape (n,)."""
        return self.source.numbers(indexes)[:, 0] if isinstance(self.source, JoinedSource) else indexes

    def find(self, query: SampleQuery) -> IntArray:
        """Return the samples, or rows, whose sample in the first dataset a query chooses; ascending.

        Raises:
            ConfigError: There is no such split part, value or filter, or the condition is invalid.
        """
        numbers = find_samples(self.first, query)
        if not isinstance(self.source, JoinedSource):
            return numbers
        return np.flatnonzero(np.isin(self.source.rows[:, 0], numbers))

    def find_keys(self, keys: Sequence[str]) -> dict[str, IntArray]:
        """Return the samples, or rows, of each key, ascending; a key may also be the name of a shard."""
        by_key = {key: np.asarray(some, np.int64) for key, some in samples_of_keys(self.first, keys).items()}
        if isinstance(self.source, JoinedSource):
            first = self.source.rows[:, 0]
            return {key: np.flatnonzero(np.isin(first, some)) for key, some in by_key.items()}
        return by_key

    def parts(self, index: int, names: Sequence[str] | None = None) -> dict[str, bytes]:
        """Read parts of a sample or row, as bytes.

        Args:
            index: Its number in the index, or the join.
            names: The parts to read, if the sample has them; None for all.
        """
        return {
            f"{member.prefix}{name}": _stored_bytes(value)
            for member in self._members(index)
            for name, value in member.dataset.read_parts(
                member.number, None if names is None else _without(member.prefix, names)
            ).items()
        }

    def read(self, index: int, part: str, start: int, stop: int | None) -> bytes:
        """Read a range of the bytes of a part.

        Raises:
            MissingFileError: The sample has no such part.
        """
        known: list[str] = []
        for member in self._members(index):
            if part.startswith(member.prefix):
                name = part.removeprefix(member.prefix)
                try:
                    if format_of(member.dataset.path) == "binidx":  # of which a dataset reads the text
                        return _stored_bytes(member.dataset.read_parts(member.number)[name])[start:stop]
                    return member.dataset.read(member.number, name, start, stop)
                except KeyError as error:
                    if isinstance(error, SampleError):
                        raise
            known += [f"{member.prefix}{place.name}" for place in member.dataset.parts(member.number)]
        raise MissingFileError(
            f"there is no part {part!r}; the sample has: {', '.join(known)}", at=self.source.place_of(index)
        )

    def where_is(self, index: int) -> SampleLocation:
        """Return where the bytes of a sample or row lie, without reading them."""
        first, *others = (_location(member) for member in self._members(index))
        return SampleLocation(**{name: getattr(first, name) for name in _FIELDS}, joined=tuple(others))

    def _members(self, index: int) -> Iterator[_Member]:
        row = [index]
        if isinstance(self.source, JoinedSource):
            row = self.source.numbers(np.array([index]))[0].tolist()
        for prefix, dataset, source, number in zip(self._prefixes, self.datasets, self._sources, row, strict=True):
            if number >= 0 and isinstance(source, DatasetSource):
                yield _Member(prefix, dataset, source, number)


_FIELDS = ("dataset", "shard", "key", "number", "parts")


def _stored_bytes(value: Any) -> bytes:
    """Return the bytes of a part: of tokens as they are stored, of a text in UTF-8, of other values as JSON."""
    return value.tobytes() if isinstance(value, np.ndarray) else as_bytes(value)


def _without(prefix: str, names: Sequence[str]) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def _location(member: _Member) -> SampleLocation:
    _, dataset, source, number = member
    shard = dataset.index.shard_of(number)
    if dataset.records is None:
        parts = {part.name: PartRange(offset=part.offset, size_bytes=part.size_bytes) for part in dataset.parts(number)}
    else:
        parts = _ranges_of_record(dataset, source, number)
    return SampleLocation(
        dataset=dataset.path,
        shard=dataset.storage.path(shard.name),
        key=dataset.index.key(number),
        number=number,
        parts=parts,
    )


def _ranges_of_record(dataset: Dataset, source: DatasetSource, number: int) -> dict[str, PartRange]:
    """Return the range of a line or a document; of a row, which has none, the sizes of its values."""
    found = source.locate(np.array([number]))
    start, size_bytes = int(found.start[0]), int(found.size_bytes[0])
    if size_bytes >= 0:
        return {found.part_name[0]: PartRange(offset=start, size_bytes=size_bytes)}
    return {part.name: PartRange(offset=None, size_bytes=part.size_bytes) for part in dataset.parts(number)}
