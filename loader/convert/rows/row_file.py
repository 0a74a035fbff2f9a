"""A file of rows, so that a plan of any number of samples takes little memory, and their division into shards."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...format.tar.header import BLOCK
from ...order.index_permutation import permute_array
from ...storage import ClosesOnExit, raise_storage_error
from ..writing.shard_file import member_bytes
from .row import NO_SPLIT, CellRef, Row, hash_key, hash_thing, rename_repeated
from .whole_groups import parts_of_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLayout:
    """Limits and order of the rows of shards.

    Attributes:
        shard_bytes: A shard ends before the sample that would exceed this size; a larger sample has its own.
        samples_per_shard: Most samples of a shard.
        split_ratio: Share of each split part; None keeps the splits of the source.
        shuffle_seed: Seed of the order of rows; None keeps their order.
        order: The rows in the order to keep, shape (n,); None for the order of the source.
    """

    shard_bytes: int = 10**9
    samples_per_shard: int = 10_000
    split_ratio: Mapping[str, float] | None = None
    shuffle_seed: int | None = None
    order: IntArray | None = None

    def check(self) -> None:
        """Raise a ``ConfigError`` if a number is not positive."""
        for name, value in (("shard_bytes", self.shard_bytes), ("samples_per_shard", self.samples_per_shard)):
            if value < 1:
                raise ConfigError(f"expected a positive number as {name}, found {value}")
        if self.order is not None and self.shuffle_seed is not None:
            raise ConfigError("rows are either sorted or shuffled, found both")


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """A shard to write: the rows ``order[start:stop]``.

    Attributes:
        split: Its split part; ``""`` for none.
        start: First position in the order.
    """

    name: str
    split: str
    start: int
    stop: int


def order_rows(
    splits: IntArray, split_names: tuple[str, ...], layout: ShardLayout, groups: IntArray | None = None
) -> tuple[IntArray, list[tuple[str, int, int]]]:
    """Return the order in which rows are written, and the range of it that belongs to each split part.

    The first share of a pseudorandom permutation of the groups of rows is the first split part, and so on. Within a
    part, rows are in the order of a permutation of all rows if they are shuffled, else in the order of the source.

    Args:
        splits: Position of each row's split in ``split_names``, shape (n,).
        groups: The first row of each row's group, shape (n,), which a ratio does not divide; None if all are alone.

    Returns:
        The order, shape (n,), and for each part its name, first position and end.
    """
    rows = len(splits)
    seed = layout.shuffle_seed
    order = _permuted(rows, seed) if seed is not None else np.arange(rows) if layout.order is None else layout.order
    # Keep the splits of the source, or divide by shares.
    part_of = splits
    if layout.split_ratio is not None:
        part_of = _divide(np.arange(rows) if groups is None else groups, layout.split_ratio, seed or 0)
    names = split_names if layout.split_ratio is None else layout.split_ratio
    pieces = [(name, order[part_of[order] == part]) for part, name in enumerate(names)]
    # The parts follow one another in the order.
    stops = np.cumsum([len(piece) for _, piece in pieces]).tolist()
    parts = [(name, stop - len(piece), stop) for (name, piece), stop in zip(pieces, stops, strict=True)]
    return np.concatenate([order[:0], *(piece for _, piece in pieces)]), parts


def _permuted(count: int, seed: int) -> IntArray:
    return np.asarray(permute_array(np.arange(count), count, seed), np.int64) if count else np.empty(0, np.int64)


def _divide(groups: IntArray, ratio: Mapping[str, float], seed: int) -> IntArray:
    """Return the position in the ratio of each row's split part, shape (n,)."""
    _, group_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    ends = np.round(len(groups) * np.cumsum([*ratio.values()]) / sum(ratio.values()))
    # Rows that are all alone are divided exactly, even if a part has less than one.
    needed = np.flatnonzero([*ratio.values()] if len(sizes) < len(groups) else [])
    return parts_of_groups(sizes.astype(np.int64), _permuted(len(sizes), seed), ends, needed)[group_of]


def plan_shards(sizes: IntArray, parts: list[tuple[str, int, int]], layout: ShardLayout) -> list[PlannedShard]:
    """Divide an order of rows into shards.

    Args:
        sizes: Bytes that each row takes, in this order, shape (n,); -1 where they are unknown, which counts as the
            mean of the others.
        parts: For each split part its name, and the range of the order.
    """
    # Unknown sizes count as the mean.
    known = sizes[sizes >= 0]
    counted = np.where(sizes < 0, int(known.mean()) if len(known) else 0, sizes)
    ends = np.concatenate(([0], np.cumsum(counted)))
    # A shard has rows of one split part.
    cuts = [(split, *cut) for split, start, stop in parts for cut in _cuts(ends, start, stop, layout)]
    digits = max(6, len(str(len(cuts))))
    return [
        PlannedShard(f"shard_{index:0{digits}d}.tar", split, start, stop)
        for index, (split, start, stop) in enumerate(cuts)
    ]


def _cuts(ends: IntArray, start: int, stop: int, layout: ShardLayout) -> Iterator[tuple[int, int]]:
    while start < stop:
        # The last row that fits by size; at least one row.
        by_size = int(np.searchsorted(ends, ends[start] + layout.shard_bytes, side="right")) - 1
        end = min(max(by_size, start + 1), start + layout.samples_per_shard, stop)
        yield start, end
        start = end


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Row)
_ESTIMATE_MARGIN = 16
"""The size of an estimated part counts a sixteenth more: twice the deviation of the mean of 1,000 parts whose sizes
deviate by their mean. With less than a block more, the mean of the padded sizes is not underestimated either."""


class RowFileWriter(ClosesOnExit):
    """Writes rows to a new file."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file = open(path, "wb")  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise_storage_error("write this file", path, error)
        self._ends = array("q")
        self._sizes = array("q")
        self._hashes = array("q")
        self._splits = array("q")
        self._things = array("q")
        self._split_names: dict[str, int] = {}
        self._written = 0

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            data = _encoder.encode(row)
            try:
                self._file.write(data)
            except OSError as error:
                raise_storage_error("write this file", self._path, error)
            self._written += len(data)
            self._ends.append(self._written)
            self._sizes.append(_shard_bytes(row))
            self._hashes.append(hash_key(row.key))
            self._splits.append(self._split_names.setdefault(row.split, len(self._split_names)))
            self._things.append(hash_thing(row, len(self._things)))

    def finish(self) -> RowFile:
        """Close the file, and return it for reading, with a key of its own for each row."""
        try:
            self._file.close()
        except OSError as error:
            raise_storage_error("write this file", self._path, error)
        _, first, group_of = np.unique(_frozen(self._things), return_index=True, return_inverse=True)
        rows = RowFile(
            path=self._path,
            ends=_frozen(self._ends),
            sizes=_frozen(self._sizes),
            splits=_frozen(self._splits),
            split_names=tuple(self._split_names),
            groups=first[group_of],
            renamed={},
        )
        rows.renamed = rename_repeated(_frozen(self._hashes), lambda row: rows[row].key)
        return rows

    def close(self) -> None:
        self._file.close()


@dataclass(kw_only=True, eq=False, repr=False)
class RowFile:
    """Rows in a file, by number.

    Attributes:
        ends: Offset of the end of each row in bytes, shape (n,).
        sizes: Bytes that each row takes in a shard, shape (n,); -1 where they are unknown.
        splits: Position of each row's split in ``split_names``, shape (n,).
        split_names: Names of splits; ``""`` for none.
        groups: The first row that shows the same thing as each row, or has the same file, shape (n,).
        renamed: Row → its key, where it is not the one that the source proposed.
    """

    path: str
    ends: IntArray
    sizes: IntArray
    splits: IntArray
    split_names: tuple[str, ...]
    groups: IntArray
    renamed: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.ends)

    def read(self, row: int) -> bytes:
        start = int(self.ends[row - 1]) if row else 0
        try:
            return os.pread(self._fd(), int(self.ends[row]) - start, start)
        except OSError as error:
            raise_storage_error("read this file", self.path, error)

    def __getitem__(self, row: int) -> Row:
        return _decoder.decode(self.read(row))

    def divided_groups(self) -> IntArray:
        """Return the groups that the splits of the source divide."""
        codes = {NO_SPLIT: 0}
        of_names = [codes.setdefault(name or "train", len(codes)) for name in self.split_names]
        part_of = np.array(of_names, np.int64)[self.splits]
        groups = np.unique(self.groups[part_of > 0] * len(codes) + part_of[part_of > 0]) // len(codes)
        return np.unique(groups[1:][groups[1:] == groups[:-1]])

    def key(self, row: int, proposed: str) -> str:
        return self.renamed.get(row, proposed)

    def _fd(self) -> int:
        if not hasattr(self, "_opened"):
            self._opened = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._opened

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_opened"}

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at an exit, modules may be gone
        if hasattr(self, "_opened"):
            close(self._opened)


def _shard_bytes(row: Row) -> int:
    """Return the bytes that a row takes in a shard; -1 if they are unknown."""
    key_bytes, total = len(row.key.encode()) + 1, 0
    for name, part in row.parts.items():
        size_bytes = part.size_bytes
        if size_bytes < 0:
            return -1
        # Plan a little more for an estimate, so that few shards exceed the plan and are cut.
        if isinstance(part, CellRef):
            size_bytes += size_bytes // _ESTIMATE_MARGIN + BLOCK - 1
        total += member_bytes(key_bytes + len(name), size_bytes)
    return total


def _frozen(values: array[int]) -> IntArray:
    return np.frombuffer(values, np.int64) if len(values) else np.empty(0, np.int64)
