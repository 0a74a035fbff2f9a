"""Count the samples that buffers hold, and that cannot be rebuilt because their datasets are gone from the mix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ....order import GONE
from ....pipeline.contract.item_id import ItemId, as_item_id, samples_in
from ....pipeline.contract.lane import child_seed
from ....pipeline.contract.stage import SavableDataset, State
from ....pipeline.contract.state_schema import item_ids_in
from ....pipeline.reading.read import ReadDataset
from ....pipeline.stages.blend import BlendDataset
from .change import nests_states


class _PlacedStage(NamedTuple):
    """A stage, with the path and the seed of the inputs of blends that lead to it."""

    stage: SavableDataset[Any]
    path: str
    seed: int

    def below(self) -> _PlacedStage:
        return self._replace(stage=self.stage.inputs[0])

    def inputs(self) -> dict[int, _PlacedStage]:
        """Return the inputs of a blend by their origins."""
        pairs = zip(getattr(self.stage, "origins", ()), self.stage.inputs, strict=True)
        return {
            origin: _PlacedStage(upstream, f"{self.path}{origin}/", child_seed(self.seed, origin))
            for origin, upstream in pairs
        }


def count_lost_samples(chain: SavableDataset[Any], state: State, number: int, *, lanes: int, seed: int) -> int:
    """Count the samples in the buffers of a lane whose datasets are gone.

    Args:
        chain: The chain, with its earlier mixes.
        state: The state of the lane.
        number: The lane.
        lanes: L of the run.
        seed: Seed of the run.
    """
    lost: dict[tuple[str, ItemId], int] = {}  # a state may name a sample twice
    for place, item_id in _buffered(_PlacedStage(chain, "", seed), state):
        for reader, position in _read_for(place, item_id):
            if not isinstance(reader.stage, ReadDataset):
                lost[reader.path, position] = samples_in(position)
                continue
            order = reader.stage.lane_order(number, lanes=lanes, seed=reader.seed)
            source, *_ = order.locate(position, position + 1)
            lost[reader.path, position] = int(source[0] == GONE)
    return sum(lost.values())


def _buffered(place: _PlacedStage, state: State) -> Iterator[tuple[_PlacedStage, ItemId]]:
    """Yield the ids of the items in buffers, each with the stage that holds it."""
    stage = place.stage
    own = state.get(stage.key)
    if isinstance(stage, BlendDataset):
        for origin, inner in place.inputs().items():
            yield from _buffered(inner, (own or {}).get(str(origin), {}))
        return
    if own is not None and stage.entry_schema is not None:
        for item_id in item_ids_in(own, stage.entry_schema):
            yield place, as_item_id(item_id)
    if not nests_states(stage):
        yield from _buffered(place.below(), state)


def _read_for(place: _PlacedStage, item_id: ItemId) -> Iterator[tuple[_PlacedStage, Any]]:
    """Yield the readers and positions of an item's samples; the blend and the item's id if its input is gone."""
    stage = place.stage
    if isinstance(item_id, tuple):
        if item_id and not isinstance(item_id[0], str):
            for part in item_id:
                yield from _read_for(place, part)
            return
        if item_id and item_id[0] == stage.key:
            _, number, inner = item_id
            if not isinstance(stage, BlendDataset):
                yield from () if nests_states(stage) else _read_for(place.below(), inner)
            elif number in stage.origins:
                yield from _read_for(place.inputs()[number], inner)
            else:
                yield place, item_id
            return
    if isinstance(stage, ReadDataset):
        if isinstance(item_id, int):
            yield place, item_id
    elif not nests_states(stage):
        yield from _read_for(place.below(), item_id)
