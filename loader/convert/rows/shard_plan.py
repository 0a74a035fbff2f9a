"""Divide rows into the shards of a dataset: a function of the rows and the settings, not of who writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import ConfigError
from ...order.index_permutation import permute_array

IntArray = npt.NDArray[np.int64]


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
    splits: IntArray, split_names: tuple[str, ...], layout: ShardLayout
) -> tuple[IntArray, list[tuple[str, int, int]]]:
    """Return the order in which rows are written, and the range of it that belongs to each split part.

    The first share of a pseudorandom permutation of the rows is the first split part, and so on. Within a part, rows
    are in this permutation's order if they are shuffled, else in the order of the source.

    Args:
        splits: Position of each row's split in ``split_names``, shape (n,).

    Returns:
        The order, shape (n,), and for each part its name, first position and end.
    """
    rows = len(splits)
    seed = layout.shuffle_seed
    permuted = np.asarray(permute_array(np.arange(rows), rows, seed or 0), np.int64) if rows else np.empty(0, np.int64)
    kept = np.arange(rows, dtype=np.int64) if layout.order is None else layout.order
    if layout.split_ratio is None:
        order = kept if seed is None else permuted
        pieces = [(name, order[splits[order] == number]) for number, name in enumerate(split_names)]
    else:
        total = sum(layout.split_ratio.values())
        pieces, start, share = [], 0, 0.0
        for name, weight in layout.split_ratio.items():
            share += weight
            stop = round(rows * share / total)
            piece = permuted[start:stop]
            pieces.append((name, kept[np.isin(kept, piece, assume_unique=True)] if seed is None else piece))
            start = stop
    parts, start = [], 0
    for name, piece in pieces:
        parts.append((name, start, start + len(piece)))
        start += len(piece)
    return np.concatenate([piece for _, piece in pieces]) if pieces else permuted, parts


def plan_shards(sizes: IntArray, parts: list[tuple[str, int, int]], layout: ShardLayout) -> list[PlannedShard]:
    """Divide an order of rows into shards.

    Args:
        sizes: Bytes that each row takes, in this order, shape (n,); -1 where they are unknown, which counts as the
            mean of the others.
        parts: For each split part its name, and the range of the order.
    """
    known = sizes[sizes >= 0]
    counted = np.where(sizes < 0, int(known.mean()) if len(known) else 0, sizes)
    ends = np.concatenate(([0], np.cumsum(counted)))
    cuts = [(split, *cut) for split, start, stop in parts for cut in _cuts(ends, start, stop, layout)]
    digits = max(6, len(str(len(cuts))))
    return [
        PlannedShard(f"shard_{number:0{digits}d}.tar", split, start, stop)
        for number, (split, start, stop) in enumerate(cuts)
    ]


def _cuts(ends: IntArray, start: int, stop: int, layout: ShardLayout) -> Iterator[tuple[int, int]]:
    while start < stop:
        by_size = int(np.searchsorted(ends, ends[start] + layout.shard_bytes, side="right")) - 1
        end = min(max(by_size, start + 1), start + layout.samples_per_shard, stop)
        yield start, end
        start = end
