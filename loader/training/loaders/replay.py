"""Load a sample again by its restore key."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import StateError
from ...format.documents.messages import short_repr
from ...pipeline.contract.item_id import ItemId
from ...pipeline.contract.lane import Lane, set_restore_key
from ...pipeline.contract.rng import preserve_rng_state, seed_batch
from ...pipeline.contract.stage import SKIPPED, SavableDataset
from ...samples.hooks import in_hook_context
from ..states.state_size import check_size
from ..workers.running_lane import MICRO_BATCH, open_lane
from ..workers.worker_errors import input_at, is_of_this_library

_HINT = "pass batch.__restore_key__ unchanged"
_MAX_NUMBER = 1 << 48
"""Above the positions and numbers of micro-batches that a run reaches."""


def restore_sample(dataset: SavableDataset[Any], key: Any, *, lanes: int) -> Any:
    """Rebuild an item of a chain.

    A micro-batch gets the random numbers of its first build, provided that no sample was skipped for it.

    Args:
        key: ``(stage, lane, micro-batch, item id)``; lists instead of tuples are accepted.
    """
    # Find the stage and the lane of the key.
    key = _checked_key(key)
    stage, lane_number, batch, item_id = key
    if not 0 <= lane_number < lanes:
        raise StateError(f"the key is of lane {lane_number}; this run has lanes 0 to {lanes - 1}")
    lane = open_lane(dataset, lane_number, lanes)
    opened = (dataset, lane) if stage == MICRO_BATCH else _stage(dataset, lane, stage)
    if opened is None:
        raise StateError(f"this dataset has no stage {short_repr(stage)}: the key is of another dataset")
    # Load the item with the random numbers of its micro-batch.
    lane.context.batch_index = batch
    with preserve_rng_state(), in_hook_context(lane.context):
        if batch is not None:
            seed = dataset.worker_config.seed_offset
            seed_batch(seed, batch % lanes, batch // lanes)
            lane.context.rng_parts = (seed, batch % lanes, batch // lanes)
        running = opened[0].open(opened[1], {})
        try:
            value = running.load(item_id)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if not is_of_this_library(error):
                raise  # an error of a hook
            raise StateError(
                f"the key {short_repr(key)} does not fit this dataset: {type(error).__name__}: {error}", hint=_HINT
            ) from error
    if value is SKIPPED:
        raise StateError(f"the key {short_repr(key)} names no sample of this dataset", hint=_HINT)
    set_restore_key(value, stage, opened[1], item_id)
    return value


def _checked_key(key: Any) -> tuple[str, int, int | None, ItemId]:
    try:
        check_size(key)
        stage, lane, batch, item_id = key
        if not isinstance(stage, str):
            raise TypeError(stage)  # noqa: TRY301 - handled below
        return stage, _checked_number(lane), None if batch is None else _checked_number(batch), _checked_item(item_id)
    except (StateError, TypeError, ValueError):
        raise StateError(
            f"expected the __restore_key__ of a sample or batch of this loader, found {short_repr(key)}", hint=_HINT
        ) from None


def _checked_item(value: Any) -> ItemId:
    if not isinstance(value, list | tuple):
        return _checked_number(value)
    stage = value[:1] if value and isinstance(value[0], str) else ()
    return *stage, *map(_checked_item, value[len(stage) :])


def _checked_number(value: Any) -> int:
    if type(value) is bool or not isinstance(value, int | np.integer) or not 0 <= value < _MAX_NUMBER:
        raise ValueError(value)
    return int(value)


def _stage(dataset: SavableDataset[Any], lane: Lane, wanted: str) -> tuple[SavableDataset[Any], Lane] | None:
    """Find a stage by the name in its items' keys, and the lane for which it was opened."""
    stage: tuple[SavableDataset[Any], Lane] | None = dataset, lane
    while stage is not None and stage[1].path + stage[0].key != wanted:
        stage = input_at(*stage, wanted)
    return stage
