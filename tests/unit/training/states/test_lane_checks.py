"""Damaged lane states are refused before a chain is opened."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest

from loader import (
    BatchDataset,
    ConcatDataset,
    MapDataset,
    SavableDataset,
    ShuffleBufferDataset,
    StateError,
    WorkerConfig,
    get_savable_loader,
)
from loader.pipeline.contract.lane import Lane
from loader.pipeline.contract.running import Running, State
from loader.training.states.lane_checks import check_lane_states
from loader.training.states.run_state import ENDLESS, RunState
from tests.e2e.drawing_encoders import Grouping, Restorable
from tests.e2e.drawing_pipelines import Build, Data, train, val, write_data
from tests.elastic_runs import fingerprint, through_json

BUILDS: dict[str, Build] = {
    "endless": train,
    "one pass": partial(train, repeat=False),
    "lane by lane": partial(val, encoder=Grouping),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("lanes"))


def config(lanes: int | None = None) -> WorkerConfig:
    return WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=lanes)


def saved_after(build: Build, data: Data, batches: int) -> dict[str, Any]:
    loader = get_savable_loader(build(data, config(lanes=4)))
    for _ in zip(range(batches), loader, strict=False):
        pass
    state: dict[str, Any] = through_json(loader.save_state_rank())
    return state


def with_entry(state: dict[str, Any], entry: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(state)
    changed["lane"]["0"][entry] = value
    return changed


@pytest.mark.parametrize("value", [-1, 2**70, 1.5, float("nan"), True, "3", None, [], {}], ids=repr)
@pytest.mark.parametrize("entry", ["made", "0 read"])
@pytest.mark.parametrize("name", BUILDS)
def test_counts_of_lanes_must_be_counts(name: str, entry: str, value: Any, data: Data) -> None:
    state = saved_after(BUILDS[name], data, 3)
    loader = get_savable_loader(BUILDS[name](data, config()))
    with pytest.raises(StateError, match="this state is damaged: lane 0: expected"):
        loader.restore_state_rank(with_entry(state, entry, value))


@pytest.mark.parametrize("key", ["dataset", "lane", "rank", "seed"])
def test_a_state_without_a_key_is_refused_by_the_key(key: str, data: Data) -> None:
    state = saved_after(train, data, 3)
    del state[key]
    with pytest.raises(StateError, match=f"this state is damaged: it lacks '{key}'\n") as caught:
        get_savable_loader(train(data, config())).restore_state_rank(state)
    assert "save it as one value, such as json.dumps" in (caught.value.hint or "")


def test_ids_of_buffered_samples_must_be_integers(data: Data) -> None:
    build = partial(train, encoder=Grouping)
    state = saved_after(build, data, 3)
    (key,) = (key for key in state["lane"]["0"] if key not in ("made", "0 read"))
    for value in (-3, 0.5, 2**60):
        with pytest.raises(StateError, match=r"lane 0: expected .* to hold integers in"):
            get_savable_loader(build(data, config())).restore_state_rank(with_entry(state, key, [[[value, 0]]]))


def test_a_lane_saved_at_another_step_than_the_run_is_refused(data: Data) -> None:
    state = saved_after(train, data, 6)
    for made in (0, 1, 3, 10**9):
        with pytest.raises(StateError, match=rf"lane 0: it has made {made} micro-batches, and 2 before micro-batch 6"):
            get_savable_loader(train(data, config())).restore_state_rank(with_entry(state, "made", made))


def test_a_lane_far_ahead_of_a_finite_pass_is_refused(data: Data) -> None:
    build = BUILDS["one pass"]
    state = saved_after(build, data, 6)
    with pytest.raises(StateError, match="lane 0: it has made 1000000000 micro-batches, and the run is at"):
        get_savable_loader(build(data, config())).restore_state_rank(with_entry(state, "made", 10**9))


def test_the_check_takes_no_time_per_missing_lane() -> None:
    run = RunState(lanes=1 << 32, ranks=1, rank=0, seed=0, batch=1 << 40, lane_states={0: {"made": 256}})
    with pytest.raises(StateError, match=f"lacks {(1 << 32) - 1} of {1 << 32} lanes that have begun, lane 1 first"):
        check_lane_states(run, {}, kind=ENDLESS)


def test_lanes_visited_one_by_one_need_not_have_begun_if_the_last_dataset_repeats(data: Data) -> None:
    def build(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
        return ConcatDataset(val(data, config), train(data, config))

    loader = get_savable_loader(build(data, config()))
    batches = iter(loader)
    for _ in range(30):
        next(batches)
    state = through_json(loader.save_state_rank())
    restored = get_savable_loader(build(data, config()))
    restored.restore_state_rank(state)
    assert fingerprint(next(iter(restored))) == fingerprint(next(batches))


WRONG_IDS: dict[str, tuple[Any, str]] = {
    "a position behind the end": (99, "expected a position below 20 .*, found 99"),
    "an unknown stage": (["9 encode_sample", 0, 1], r"expected a position .*, found \['9 encode_sample', 0, 1\]"),
    "a generator's item without input": (["2 encode_sample", 0], r"expected \['2 encode_sample', number, id\] "),
    "an item of a generator's text": (["2 encode_sample", 0, "x"], "expected a position .*, found 'x'"),
    "an item of a lane that the run lacks": (["lane", 2, 1], r"expected \['lane', number, id\] with a number "),
    "a position behind the end of another lane": (["lane", 1, 20], "expected a position below 20 .*, found 20"),
    "joined items": ([1, 2], r"expected a position .*, found \[1, 2\]"),
}


@pytest.mark.parametrize("case", WRONG_IDS)
def test_an_item_that_the_chain_cannot_have_made_is_refused_by_its_lane_and_stage(case: str, data: Data) -> None:
    item_id, message = WRONG_IDS[case]
    build = partial(train, encoder=Grouping, path="more", repeat=False)
    loader = get_savable_loader(build(data, WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)))
    for _ in zip(range(4), loader, strict=False):
        pass
    state = through_json(loader.save_state_rank())
    (key,) = (key for key in state["lane"]["0"] if key not in ("made", "0 read"))
    for good in (19, ["2 encode_sample", 5, 19], ["lane", 1, 19]):
        get_savable_loader(build(data, config())).restore_state_rank(with_entry(state, key, [[[good, 0]]]))
    with pytest.raises(StateError, match=f"lane 0: the buffer of '{key}' has an item .*: {message}") as caught:
        get_savable_loader(build(data, config())).restore_state_rank(with_entry(state, key, [[[item_id, 0]]]))
    assert caught.value.hint == "restore another state"


def test_items_of_other_lanes_are_refused_where_lanes_have_no_end(data: Data) -> None:
    build = partial(train, encoder=Grouping)
    state = saved_after(build, data, 3)
    (key,) = (key for key in state["lane"]["0"] if key not in ("made", "0 read"))
    with pytest.raises(StateError, match=r"lane 0: the buffer of .* has an item \['lane', 1, 7\]: expected a position"):
        get_savable_loader(build(data, config())).restore_state_rank(with_entry(state, key, [[[["lane", 1, 7], 0]]]))


class Numbered(MapDataset[Any]):
    """A user's stage on top of one of the library, whose items have ids of their own."""

    def open(self, lane: Lane, state: State) -> Running:
        return _NumberedRunning(super().open(lane, state))


class _NumberedRunning:
    def __init__(self, running: Running) -> None:
        self._running = running
        self.state = running.state

    def next(self) -> tuple[Any, Any]:
        value, item_id = self._running.next()
        return value, ("numbered", item_id)

    def load(self, item_id: Any) -> Any:
        return self._running.load(item_id[1])


def test_ids_of_a_stage_that_is_derived_from_one_of_the_library_are_not_checked(data: Data) -> None:
    def build(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
        samples = Numbered(train(data, config, batch_size=None, encoder=Restorable), same)
        return BatchDataset(ShuffleBufferDataset(samples, 4), 2, Restorable().batch)

    loader = get_savable_loader(build(data, config(lanes=4)))
    batches = iter(loader)
    for _ in range(6):
        next(batches)
    restored = get_savable_loader(build(data, config()))
    restored.restore_state_rank(through_json(loader.save_state_rank()))
    assert len(next(iter(restored)).text) == 3  # two samples, and what the hook puts first


def same(sample: Any) -> Any:
    return sample
