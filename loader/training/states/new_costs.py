"""Continue a planned run with costs that were written again: from the next window of each lane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...errors import plural
from ...escaped_log import get_logger
from ...pipeline.contract.stage import SavableDataset, State
from ...pipeline.stages.batch import planned_window, planning_reader, plans_groups
from .run_state import RunState

_log = get_logger(__name__)


def with_new_costs(
    chain: SavableDataset[Any], saved: RunState, lane_states: Mapping[int, State]
) -> tuple[RunState, Mapping[int, State]]:
    """Return a state, and the states of all known lanes, at the next windows if the costs have changed since.

    The rest of the windows that had begun cannot be planned again, so it is passed over, and the log counts it. Later
    windows have as many samples as before.

    Args:
        chain: A chain that begins as the saved run did.
    """
    if not plans_groups(chain):
        return saved, lane_states
    reader, groups = planning_reader(chain)
    if not groups.allow_new_costs:
        return saved, lane_states
    checksums = groups.settings()["cost_checksums"]
    dataset = _replaced(saved.dataset, checksums)
    if dataset == saved.dataset:
        return saved, lane_states
    # Move each lane to the end of its window, or of its pass.
    size, key = planned_window(chain, saved.lanes), reader.key
    moved: dict[int, State] = {}
    for lane, state in lane_states.items():
        end, length = -(-state.get(key, 0) // size) * size, reader.lane_bound(lane, saved.lanes)
        moved[lane] = {**state, key: end if length is None else min(end, length)}
    own_lanes = {lane: moved[lane] for lane in saved.lane_states}
    passed = sum(state[key] - saved.lane_states[lane].get(key, 0) for lane, state in own_lanes.items())
    _log.warning(
        "the costs have changed: rank %d plans again from the next window of each lane, and passes over %s",
        saved.rank,
        plural(passed, "sample"),
    )
    return replace(saved, dataset=dataset, lane_states=own_lanes), moved


def _replaced(identity: Any, checksums: list[int]) -> Any:
    """Return the description of a chain with the checksums of other costs."""
    if isinstance(identity, list | tuple):
        return [_replaced(part, checksums) for part in identity]
    if isinstance(identity, Mapping) and len(identity.get("cost_checksums", ())) == len(checksums):
        return {**identity, "cost_checksums": checksums}
    return identity
