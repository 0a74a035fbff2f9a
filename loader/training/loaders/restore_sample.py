"""Rebuild one sample or micro-batch from its ``__restore_key__``."""

from __future__ import annotations

from typing import Any

from ...errors import StateError
from ...pipeline.contract.item_id import as_item_id
from ...pipeline.contract.lane import RULES, Lane, set_restore_key
from ...pipeline.contract.rng import preserve_rng_state, seed_batch
from ...pipeline.contract.stage import IteratedDataset, SavableDataset
from ...pipeline.stages.blend import BlendDataset
from ...pipeline.stages.concat import ConcatDataset
from ...pipeline.stages.repeat import RepeatDataset
from ...samples.hooks import in_hook_context
from ..workers.lane_host import MICRO_BATCH, open_lane

__all__ = ["restore_sample"]


def restore_sample(dataset: SavableDataset[Any], key: Any, *, lanes: int, rules: int = RULES) -> Any:
    """Rebuild an item of a chain.

    A micro-batch gets the random numbers of its first build, provided that no sample was skipped for it.

    Args:
        dataset: The chain.
        key: ``(stage, lane, micro-batch, item id)``; lists instead of tuples are accepted.
        lanes: L of the run.
        rules: The rules of the run.

    Raises:
        StateError: The key has another form, or the run has no such stage or lane.
    """
    key = as_item_id(key)
    if not (isinstance(key, tuple) and len(key) == 4 and isinstance(key[0], str) and isinstance(key[1], int)):
        raise StateError(
            f"expected the __restore_key__ of a sample or batch of this loader, found {key!r}",
            hint="pass batch.__restore_key__ unchanged",
        )
    stage, number, batch, item_id = key
    if not 0 <= number < lanes:
        raise StateError(f"the key is of lane {number}; this run has lanes 0 to {lanes - 1}")
    lane = open_lane(dataset, number, lanes, rules=rules)
    found = (dataset, lane) if stage == MICRO_BATCH else _stage(dataset, lane, stage)
    if found is None:
        raise StateError(f"this dataset has no stage {stage!r}: the key is of another dataset")
    lane.context.batch_index = batch
    with preserve_rng_state(), in_hook_context(lane.context):
        if batch is not None:
            seed = dataset.worker_config.seed_offset
            seed_batch(seed, batch % lanes, batch // lanes)
            lane.context.rng_parts = (seed, batch % lanes, batch // lanes)
        value = found[0].open(found[1], {}).load(item_id)
    set_restore_key(value, stage, found[1], item_id)
    return value


def _stage(dataset: SavableDataset[Any], lane: Lane, wanted: str) -> tuple[SavableDataset[Any], Lane] | None:
    """Find a stage by the name in its items' keys, and the lane for which it was opened."""
    while lane.path + dataset.key != wanted:
        if not dataset.inputs:
            return None
        place = 0
        if isinstance(dataset, BlendDataset | ConcatDataset | RepeatDataset | IteratedDataset):
            # These open each source, or each pass, for a child lane; the key contains its path.
            number, slash, _ = wanted.removeprefix(lane.path).partition("/")
            if not slash or not number.isdecimal():
                return None
            lane = lane.child(int(number))
            place = 0 if isinstance(dataset, RepeatDataset) else int(number)
            if isinstance(dataset, BlendDataset):
                if place not in dataset.origins:
                    return None
                place = dataset.origins.index(place)
            if isinstance(dataset, IteratedDataset):
                place %= len(dataset.inputs)  # a later pass has another lane
        if place >= len(dataset.inputs):
            return None
        dataset = dataset.inputs[place]
    return dataset, lane
