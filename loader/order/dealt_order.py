"""An order that is not shuffled, dealt to the lanes: the sequence of the run is that of the sources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .edited_order import EditedLane, EditedOrder
from .finite_pass import FinitePass
from .repeated_order import RepeatedOrder
from .stream_order import BlendedLane, Located, check_lane, check_range


@dataclass(frozen=True)
class DealtOrder:
    """The stream of one lane, dealt to the lanes of a run in chunks: lane l gets chunks l, l + L, l + 2 · L, ….

    Args:
        inner: The order, of a single lane.
        lanes: Number of lanes of the run.
        chunk: Number of samples of a chunk, such as the samples of a micro-batch.

    Raises:
        ValueError: The order has several lanes, there is no lane, or a chunk is below 1 sample.

    >>> from loader.order import SourceOrder
    >>> inner = RepeatedOrder((SourceOrder(samples=5, slice_length=5, epochs_together=None),), (1.0,), lanes=1, seed=0)
    >>> DealtOrder(inner, lanes=2, chunk=2).lane(1).locate(0, 4)[2].tolist()
    [2, 3, 1, 2]
    """

    inner: RepeatedOrder | EditedOrder | FinitePass
    lanes: int
    chunk: int

    def __post_init__(self) -> None:
        if self.inner.lanes != 1 or self.lanes < 1 or self.chunk < 1:
            raise ValueError(f"expected an order of 1 lane, and at least 1 lane and 1 sample of a chunk, found {self}")

    @property
    def batches(self) -> int | None:
        """Number of chunks of a pass; None for an endless order."""
        length = self.inner.lane(0).length
        return None if length is None else -(-length // self.chunk)

    def lane(self, number: int) -> _DealtLane:
        """Return the stream of a lane."""
        check_lane(number, self.lanes)
        return _DealtLane(self, self.inner.lane(0), number)


class _DealtLane:
    def __init__(self, order: DealtOrder, stream: BlendedLane | EditedLane, number: int) -> None:
        self._stream = stream
        self._number = number
        self._lanes = order.lanes
        self._chunk = order.chunk
        self.length = None if stream.length is None else self._share_of(stream.length)

    def _share_of(self, samples: int) -> int:
        rounds, rest = divmod(samples, self._lanes * self._chunk)
        return rounds * self._chunk + min(self._chunk, max(0, rest - self._number * self._chunk))

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self.length)
        chunk, offset = np.divmod(np.arange(start, stop), self._chunk)
        return self._stream.locate_at((chunk * self._lanes + self._number) * self._chunk + offset)
