"""The division of rows into shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...order.index_permutation import permute_array
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
