"""Weights that change during a run: at numbers of samples, which each lane reaches at a position that is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from .blend import quantise_weights
from .permutation import Words

MAX_SCHEDULED_SAMPLES = 1 << 39
"""Limit of the samples of a run at which weights change; products of larger ones would overflow."""

_TOTAL = 1 << 23
_GOLDEN = 0x9E3779B97F4A7C15  # multiples of it are spread evenly over the words


@dataclass(frozen=True)
class WeightSchedule:
    """The weights of sources in the stretches of a run.

    Attributes:
        starts: The first sample of each stretch, counted over all lanes from the beginning of the run: the first is 0,
            and they ascend.
        weights: For each stretch, a weight for each source: at least 0, and one of them above 0.
        deal: Samples of a micro-batch. The samples of a run are numbered micro-batch by micro-batch, which the lanes
            make in turn.

    Raises:
        ValueError: The starts do not ascend from 0, or a stretch does not have weights.
    """

    starts: tuple[int, ...]
    weights: tuple[tuple[float, ...], ...]
    deal: int = 1

    def __post_init__(self) -> None:
        starts = list(self.starts)
        if not starts or starts[0] or starts != sorted({*starts}) or starts[-1] > MAX_SCHEDULED_SAMPLES:
            raise ValueError(
                f"expected starts that ascend from 0 to at most {MAX_SCHEDULED_SAMPLES}, found {starts[:9]}"
            )
        if len(self.weights) != len(starts) or len({*map(len, self.weights)}) > 1 or self.deal < 1:
            raise ValueError(
                f"expected weights of the same sources in {len(starts)} stretches, and a deal of at least 1, "
                f"found {len(self.weights)} stretches, and a deal of {self.deal}"
            )

    def lane_starts(self, lane: int, lanes: int) -> IntArray:
        """Return the position in a lane at which each stretch starts; the sum over all lanes is :attr:`starts`.

        >>> WeightSchedule((0, 7), ((1.0, 1.0), (1.0, 0.0)), deal=2).lane_starts(1, 3).tolist()
        [0, 2]
        """
        batch, rest = np.divmod(np.array(self.starts, np.int64), self.deal)
        before, next_lane = np.divmod(batch, lanes)
        found: IntArray = (before + (lane < next_lane)) * self.deal + np.where(lane == next_lane, rest, 0)
        return found

    @cached_property
    def counts(self) -> IntArray:
        """The weights as integers in proportion; shape (stretches, sources)."""
        return np.array([quantise_scheduled_weights(weights, total=_TOTAL) for weights in self.weights])


def quantise_scheduled_weights(weights: Sequence[float], *, total: int | None = None) -> IntArray:
    """Turn weights into counts as :func:`quantise_weights` does; a weight of 0 stays 0.

    Raises:
        ValueError: A weight is below 0 or not finite, or all are 0.
    """
    given = np.asarray(weights, np.float64)
    counts = np.zeros(len(given), np.int64)
    is_used = given != 0
    if not is_used.any():
        raise ValueError(f"expected a weight above 0, found {list(weights)}")
    used = given[is_used].tolist()
    counts[is_used] = quantise_weights(used) if total is None else quantise_weights(used, total=total)
    return counts


def divide_stretches(counts: IntArray, lengths: IntArray, *, lane: int, words: Words) -> IntArray:
    """Divide the positions of stretches among sources: each gets its share, rounded up or down.

    The sum of each row is the length of its stretch. Lanes round at other places, so that a source whose share of a
    lane is less than a sample comes in some of them.

    Args:
        counts: The weights; shape (stretches, sources).
        lengths: Number of positions of each stretch in the lane.
        lane: The lane.
        words: A hash for each stretch.

    Returns:
        Shape (stretches, sources).
    """
    bounds = np.cumsum(counts, axis=1)
    total = bounds[:, -1:]
    word = words + np.array([lane * _GOLDEN & 0xFFFFFFFFFFFFFFFF], np.uint64)
    shift = (word >> np.uint64(32)).astype(np.int64)[:, None] * total >> 32  # in [0, total)
    edges = (bounds * lengths[:, None] + shift) // total
    return np.diff(edges, axis=1, prepend=0)
