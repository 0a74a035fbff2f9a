"""Drive any stage through save and restore, above a reader that needs no files."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..pipeline.contract.item_id import LANE_ITEM, ItemId, as_item_id, plain_item_id
from ..pipeline.contract.lane import Lane
from ..pipeline.contract.rng import seed_batch
from ..pipeline.contract.running import StageTraits
from ..pipeline.contract.stage import SKIPPED, Running, SavableDataset, State, has_end
from ..pipeline.contract.state_schema import COUNT, converted, saved_dict
from ..pipeline.contract.worker_config import WorkerConfig
from ..pipeline.failures.error_handlers import log_exception
from ..pipeline.failures.policy import FailurePolicy
from ..samples.hooks import in_hook_context
from ..training.workers.running_lane import ENDED, MADE, LanesInTurn, Notes, running_lanes

SEED = 7


class Values(SavableDataset[Any]):
    """Deal the values of a list to the lanes: lane l of L yields values l, l + L, …, repeated if requested."""

    entry_schema = COUNT

    def __init__(
        self,
        values: Sequence[Any],
        *,
        repeats: bool = False,
        skips: Sequence[int] = (),
        worker_config: WorkerConfig | None = None,
    ) -> None:
        alone = WorkerConfig(rank=0, world_size=1, num_workers=0)
        super().__init__(worker_config=worker_config or alone, name="values")
        self.values = list(values)
        self.again = repeats
        self.skips = frozenset(skips)  # positions of skipped items

    @property
    def traits(self) -> StageTraits:
        return StageTraits(one_to_one=True, endless=self.again)

    @property
    def items(self) -> int | None:
        return None if self.again else len(self.values)

    def open(self, lane: Lane, state: State) -> Running:
        return _ValuesRunning(self, lane, state)


class _ValuesRunning:
    def __init__(self, definition: Values, lane: Lane, state: State) -> None:
        self._values = definition.values[lane.number :: lane.count]
        self._repeats = definition.again
        self._skips = definition.skips
        self._key = definition.key
        self._next = state.get(self._key, 0)

    def next(self) -> tuple[Any, ItemId]:
        position = self._next
        if not self._values or (not self._repeats and position == len(self._values)):
            raise StopIteration
        self._next += 1
        return self.load(position), position

    def state(self) -> State:
        return {self._key: self._next}

    def load(self, item_id: ItemId) -> Any:
        # A copy, as a reader makes it: changes that a stage makes to a sample must not show in a second load.
        assert isinstance(item_id, int)
        return SKIPPED if item_id in self._skips else copy.deepcopy(self._values[item_id % len(self._values)])


@dataclass
class Step:
    """An item of a chain, and the state before it."""

    value: Any
    item_id: ItemId
    state: str
    batch: int


def lane(number: int = 0, count: int = 1, handler: Callable[..., Any] = log_exception, tolerance: int = 0) -> Lane:
    """Return a lane of a run, with the seed of all tests."""
    return Lane(number, count, seed=SEED, failures=FailurePolicy(handler, lane=number, tolerance=tolerance))


def steps(dataset: SavableDataset[Any], lane: Lane, *, most: int, state: str = "{}", made: int = 0) -> list[Step]:
    """Run a chain as a worker does, to its end or for some steps, through pickle and JSON."""
    with in_hook_context(lane.context):
        return _steps(dataset, lane, most=most, state=state, made=made)


def _steps(dataset: SavableDataset[Any], lane: Lane, *, most: int, state: str, made: int) -> list[Step]:
    context = lane.context
    running = pickle.loads(pickle.dumps(dataset)).open(lane, json.loads(state))
    schema = dataset.state_schema()
    given = []
    for batch in range(made, made + most):
        context.batch_index = batch * lane.count + lane.number
        seed_batch(lane.seed, lane.number, batch)
        before = json.dumps(running.state())
        converted(json.loads(before), saved_dict(**schema), "state")
        assert json.loads(before).keys() <= schema.keys()
        try:
            value, item_id = running.next()
        except StopIteration:
            _check_stays_over(running, dataset, lane, before)
            break
        assert as_item_id(json.loads(json.dumps(plain_item_id(item_id)))) == item_id
        given.append(Step(copy.deepcopy(value), item_id, before, context.batch_index))
    return given


def _check_stays_over(running: Running, dataset: SavableDataset[Any], lane: Lane, before: str) -> None:
    """Check that an ended pass stays ended, also after a restore right before and after its end."""
    behind = json.dumps(running.state())
    again = [running, *(dataset.open(lane, json.loads(state)) for state in (before, behind))]
    for each in again:
        try:
            value = each.next()
        except StopIteration:
            continue
        raise AssertionError(f"a pass went on after its end: {value}")


def values(dataset: SavableDataset[Any], number: int = 0, count: int = 1, *, most: int = 100) -> list[Any]:
    """Return the values of one lane without skipped ones."""
    return [step.value for step in steps(dataset, lane(number, count), most=most) if step.value is not SKIPPED]


def check_resumes(dataset: SavableDataset[Any], *, count: int = 1, most: int = 60, loads: bool = True) -> None:
    """Restore at every step of every lane, and rebuild every item from its id.

    Several lanes of a pass also run together in one worker, where they complete each other's last items: no source
    item may come twice or be lost, and a restore at every step continues with the same items.

    Args:
        dataset: The chain.
        count: Lanes.
        most: Steps of a lane.
        loads: Rebuilt items are equal; pass False if their parts were made for different micro-batches, since
            these have other restore keys.
    """
    for lane_number in range(count):
        whole = steps(dataset, lane(lane_number, count), most=most)
        for made, step in enumerate(whole):
            rest = steps(dataset, lane(lane_number, count), most=most - made, state=step.state, made=made)
            assert [(each.value, each.item_id) for each in rest] == [
                (each.value, each.item_id) for each in whole[made:]
            ], made
            assert [json.loads(each.state) for each in rest] == [json.loads(each.state) for each in whole[made:]]
        if loads:
            loading_lane = lane(lane_number, count)
            with in_hook_context(loading_lane.context):
                _check_loads(dataset, loading_lane, whole)
    if count > 1 and has_end(dataset):
        _check_lanes_together(dataset, count, most)


def _check_lanes_together(dataset: SavableDataset[Any], count: int, most: int) -> None:
    alone = [steps(dataset, lane(index, count), most=most) for index in range(count)]
    if any(len(given) == most for given in alone):
        return  # the pass is longer
    whole = [*_together(dataset, count, {}, most=most)]
    assert len(whole) < most * count, f"the lanes of one worker ({count}) do not end before item {most * count}"
    # Compare the positions of the source, if the lanes yield each of them once when they run alone.
    each_once = sorted(
        source
        for lane_number, given in enumerate(alone)
        for step in given
        if step.value is not SKIPPED
        for source in sources_of(step.item_id, lane_number)
    )
    if len(set(each_once)) == len(each_once) == _source_items(dataset):
        together = sorted(source for index, item_id, *_ in whole for source in sources_of(item_id, index))
        assert together == each_once, "lanes of one worker lose or repeat source items (lane, position)"
    for made, (*_, states) in enumerate(whole, start=1):
        rest = [*_together(dataset, count, json.loads(json.dumps(states)), most=most)]
        assert [each[:3] for each in rest] == [each[:3] for each in whole[made:]], made


def _source_items(dataset: SavableDataset[Any]) -> int | None:
    """Return the items of the source of a chain; None if there are several, or their number is not known."""
    while len(dataset.inputs) == 1:
        (dataset,) = dataset.inputs
    return None if dataset.inputs else dataset.items


def _together(
    dataset: SavableDataset[Any], count: int, states: Mapping[Any, State], *, most: int
) -> Iterator[tuple[int, ItemId, Any, dict[int, State]]]:
    """Yield lane, item id, item and all states: the lanes of one worker in turn, from their states on."""
    item_ids: dict[int, ItemId] = {}
    states = {int(key): state for key, state in states.items()}
    host = LanesInTurn(dataset=pickle.loads(pickle.dumps(dataset)), lanes=count, states=states)
    running = running_lanes(host, range(count), Notes(record=item_ids.__setitem__))
    for _ in range(most * count):
        if not running:
            return
        turn = min(running, key=lambda each: (states.get(each.number, {}).get(MADE, 0), each.number))
        message = turn.micro_batch()
        if message is ENDED:
            running.remove(turn)
            continue
        states = {**states, turn.number: message.state, **(message.others or {})}
        if message.batch is not SKIPPED:
            yield turn.number, item_ids[message.number], copy.deepcopy(message.batch), states


def sources_of(item_id: ItemId, lane_number: int) -> Iterator[tuple[int, int]]:
    """Yield the lane and the position of each source item that an item of lane ``lane_number`` is made of."""
    match item_id:
        case int(position):
            yield lane_number, position
        case (str(name), int(other), inner):
            yield from sources_of(inner, other if name == LANE_ITEM else lane_number)
        case _:
            for inner in item_id:
                yield from sources_of(inner, lane_number)


def _check_loads(dataset: SavableDataset[Any], lane: Lane, whole: Sequence[Step]) -> None:
    running = dataset.open(lane, {})
    for step in reversed(whole):
        if step.value is not SKIPPED:
            lane.context.batch_index = step.batch
            assert running.load(as_item_id(plain_item_id(step.item_id))) == step.value, step.item_id
