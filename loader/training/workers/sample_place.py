"""The name of the sample at a position of a lane, for messages about workers that died or hang."""

from __future__ import annotations

from typing import Any

from ..pipeline.leaf_table import LeafTable
from ..pipeline.read import ReadDataset
from ..pipeline.stage import SavableDataset

__all__ = ["sample_at"]


def sample_at(dataset: SavableDataset[Any], lanes: int, lane: int, position: int) -> str | None:
    """Give ``<shard>/<key>`` of a sample; None where the chain reads from several places, or cannot tell.

    Args:
        dataset: The chain.
        lanes: L of the run.
        lane: The lane.
        position: The place in the lane's stream.
    """
    while dataset.sources:
        if len(dataset.sources) > 1:
            return None
        dataset = dataset.sources[0]
    if not isinstance(dataset, ReadDataset):
        return None
    samples = [leaf.samples for leaf in dataset.leaves]
    order = dataset.plan.order(samples, lanes=lanes, seed=dataset.worker_config.seed_offset).lane(lane)
    leaf, _, sample = order.locate(position, position + 1)
    index = LeafTable(dataset.leaves).index_numbers(leaf, sample)
    return dataset.leaves[int(leaf[0])].place_of(int(index[0]))
