"""Which samples make a micro-batch: answered by the order alone, without reading a shard."""

from __future__ import annotations

from .dealt_pass import DealtPass
from .repeated_order import RepeatedOrder
from .stream_order import Located

__all__ = ["samples_of_batch"]


def samples_of_batch(order: RepeatedOrder | DealtPass, batch: int, batch_size: int) -> Located:
    """Say which samples make a micro-batch of a pipeline whose stages neither drop nor regroup samples.

    Args:
        order: Of the run. Of a pass that is not dealt, micro-batches are not known ahead.
        batch: The micro-batch of the whole run.
        batch_size: Samples of a micro-batch; that of the pass, if it is one.

    Returns:
        The leaves, epochs and sample numbers, each of shape (batch_size,); shorter for the last batch of a pass.

    Raises:
        ValueError: There is no such micro-batch, or the pass is dealt in micro-batches of another size.

    >>> from loader.order import SequentialPass
    >>> leaf, epoch, sample = samples_of_batch(DealtPass(SequentialPass((5, 3), lanes=2), batch_size=3), 1, 3)
    >>> leaf.tolist(), sample.tolist()
    ([0, 0, 1], [3, 4, 0])
    """
    if isinstance(order, DealtPass) and order.batch_size != batch_size:
        raise ValueError(f"expected the pass's batch size of {order.batch_size}, found {batch_size}")
    if batch < 0 or (order.batches is not None and batch >= order.batches):
        limit = "" if order.batches is None else f" below {order.batches}"
        raise ValueError(f"expected a micro-batch of at least 0{limit}, found {batch}")
    lane = order.lane(batch % order.lanes)
    start = batch // order.lanes * batch_size
    stop = start + batch_size
    return lane.locate(start, stop if lane.length is None else min(stop, lane.length))
