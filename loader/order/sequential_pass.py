"""One unshuffled pass for validation: source after source, each sample once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from .stream_order import Located, check_lane, check_range


@dataclass(frozen=True)
class SequentialPass:
    """The concatenated sources, cut into lanes of neighbours; lane j has samples ``[n · j / L, n · (j + 1) / L)``.

    Args:
        samples: Number of samples of each source.
        lanes: Number of lanes of the run.

    Raises:
        ValueError: There is no lane, or a number of samples is below 0.

    >>> source, epoch, sample = SequentialPass((2, 3), lanes=2).lane(1).locate(0, 3)
    >>> source.tolist(), sample.tolist()
    ([1, 1, 1], [0, 1, 2])
    """

    samples: tuple[int, ...]
    lanes: int

    def __post_init__(self) -> None:
        if self.lanes < 1 or min(self.samples, default=0) < 0:
            raise ValueError(f"expected at least 1 lane and no source below 0 samples, found {self}")

    @property
    def batches(self) -> None:
        """None: stages that drop or regroup samples decide how many micro-batches a lane makes."""

    def lane(self, number: int) -> _SequentialLane:
        """Return the stream of a lane."""
        check_lane(number, self.lanes)
        total = sum(self.samples)
        return _SequentialLane(self, range(total * number // self.lanes, total * (number + 1) // self.lanes))

    def locate(self, place: IntArray) -> Located:
        """Return the samples at places of the concatenated sources, shape (m,)."""
        ends = np.cumsum(np.array(self.samples, dtype=np.int64))
        source = np.searchsorted(ends, place, side="right")
        starts = ends - np.array(self.samples, dtype=np.int64)
        return source, np.zeros(len(place), dtype=np.int64), place - starts[source]


class _SequentialLane:
    def __init__(self, order: SequentialPass, places: range) -> None:
        self._order = order
        self._places = places

    @property
    def length(self) -> int:
        return len(self._places)

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self.length)
        return self._order.locate(self._places.start + np.arange(start, stop))
