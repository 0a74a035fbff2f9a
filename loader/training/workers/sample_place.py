"""The name of the sample at a position of a lane, for messages about workers that died or hang."""

from __future__ import annotations

from typing import Any

from ...pipeline.contract.stage import SavableDataset
from ...pipeline.reading.read import ReadDataset, SourceTable

__all__ = ["sample_at"]


def sample_at(dataset: SavableDataset[Any], lanes: int, lane: int, position: int) -> str | None:
    """Give ``<shard>/<key>`` of a sample; None where the chain reads from several places, or cannot tell.

    Args:
        dataset: The chain.
        lanes: L of the run.
        lane: The lane.
        position: The place in the lane's stream.
    """
    while dataset.inputs:
        if len(dataset.inputs) > 1:
            return None
        dataset = dataset.inputs[0]
    if not isinstance(dataset, ReadDataset):
        return None
    samples = [source.samples for source in dataset.sources]
    order = dataset.plan.order(samples, lanes=lanes, seed=dataset.worker_config.seed_offset).lane(lane)
    source, _, sample = order.locate(position, position + 1)
    index = SourceTable(dataset.sources).index_numbers(source, sample)
    return dataset.sources[int(source[0])].place_of(int(index[0]))
