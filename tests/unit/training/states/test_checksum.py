"""States have a checksum: one that was damaged or edited is refused before a chain is opened."""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import Any

import numpy as np
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
from loader.training.states.run_state import RunState, checksum_of
from tests.e2e.drawing_encoders import Grouping, Restorable
from tests.e2e.drawing_pipelines import Build, Data, train, val, write_data
from tests.elastic_runs import fingerprint, sealed, through_json

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


@pytest.mark.parametrize("value", [-1, 2**70, 1.5, float("nan"), True, "3", None, [], {}, [[[99, 0]]]], ids=repr)
@pytest.mark.parametrize("name", BUILDS)
def test_a_state_that_was_edited_is_refused_by_the_argument_that_accepts_it(name: str, value: Any, data: Data) -> None:
    state = with_entry(saved_after(BUILDS[name], data, 3), "0 read", value)
    loader = get_savable_loader(BUILDS[name](data, config()))
    for restore in (loader.restore_state_rank, lambda state: loader.restore_state_global([state])):
        with pytest.raises(StateError, match="this state is damaged or was edited: expected the checksum") as caught:
            restore(state)
        assert "allow_edited_state=True" in (caught.value.hint or "")


def test_an_edited_state_that_is_accepted_continues_at_the_edited_position(data: Data) -> None:
    state = saved_after(train, data, 4)
    later = with_entry(state, "0 read", state["lane"]["0"]["0 read"] + 3)
    runs = (
        get_savable_loader(train(data, config())).with_restored_state_rank(state),
        get_savable_loader(train(data, config())).with_restored_state_rank(later, allow_edited_state=True),
        get_savable_loader(train(data, config())).with_restored_state_global([later], allow_edited_state=True),
        get_savable_loader(train(data, config())).with_restored_state_rank(sealed(later)),
    )
    batches = [fingerprint(next(iter(run))) for run in runs]
    assert batches[0] != batches[1] == batches[2] == batches[3]


@pytest.mark.parametrize("value", [-1, 2**70, 1.5, True, "3", None, [], {}], ids=repr)
def test_an_accepted_state_still_has_counts_as_counts(value: Any, data: Data) -> None:
    state = with_entry(saved_after(train, data, 3), "0 read", value)
    with pytest.raises(StateError, match="this state is damaged: lane 0: expected"):
        get_savable_loader(train(data, config())).restore_state_rank(state, allow_edited_state=True)


def test_a_state_without_a_checksum_is_refused(data: Data) -> None:
    state = saved_after(train, data, 3)
    del state["checksum"]
    with pytest.raises(StateError, match="this state is damaged: it lacks 'checksum'"):
        get_savable_loader(train(data, config())).restore_state_rank(state)
    get_savable_loader(train(data, config())).restore_state_rank(state, allow_edited_state=True)


def test_the_checksum_does_not_depend_on_the_types_to_which_tools_convert_values() -> None:
    plain = {"version": 4, "lane": {"0": {"made": 2}}, "dataset": ["read", {"weights": [1.0, 0.5]}]}
    other = {"dataset": ("read", {"weights": [1, np.float64(0.5)]}), "lane": {"0": {"made": np.int64(2)}}, "version": 4}
    assert checksum_of(plain) == checksum_of(other)
    assert checksum_of(plain) != checksum_of({**plain, "version": 5})


class ByLength(MapDataset[Any]):
    """A user's stage that counts its items by an integer, in the keys of its state."""

    def open(self, lane: Lane, state: State) -> Running:
        return _ByLengthRunning(super().open(lane, state), state)


class _ByLengthRunning:
    def __init__(self, running: Running, state: State) -> None:
        self._running = running
        self.counts = {int(length): count for length, count in state.get("lengths", {10: 0, 9: 0}).items()}
        self.load = running.load

    def next(self) -> tuple[Any, Any]:
        self.counts[10] += 1
        return self._running.next()

    def state(self) -> State:
        return {**self._running.state(), "lengths": dict(self.counts)}


@pytest.mark.parametrize("through", [copy.deepcopy, through_json], ids=["as it is", "as JSON"])
def test_a_state_with_integer_keys_is_the_same_as_json(data: Data, through: Any) -> None:
    def build(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
        return ByLength(train(data, config), same)

    loader = get_savable_loader(build(data, config(lanes=4)))
    batches = iter(loader)
    for _ in range(6):
        next(batches)
    state = loader.save_state_rank()
    assert [*state["lane"]["0"]["lengths"]] == [10, 9]  # as integers they sort in another order than as texts
    restored = get_savable_loader(build(data, config()))
    restored.restore_state_rank(through(state))
    assert fingerprint(next(iter(restored))) == fingerprint(next(batches))


@pytest.mark.parametrize("key", ["dataset", "lane", "rank", "seed"])
def test_a_state_without_a_key_is_refused_by_the_key(key: str, data: Data) -> None:
    state = saved_after(train, data, 3)
    del state[key]
    with pytest.raises(StateError, match=f"this state is damaged: it lacks '{key}'\n") as caught:
        get_savable_loader(train(data, config())).restore_state_rank(state)
    assert "save it as one value, such as json.dumps" in (caught.value.hint or "")


def test_missing_lanes_are_counted_without_a_visit_to_each() -> None:
    run = RunState(
        lanes=1 << 32, ranks=1, rank=0, seed=0, kind="endless", batch=1 << 40, lane_states={0: {"made": 256}}
    )
    with pytest.raises(StateError, match=f"lacks {(1 << 32) - 1} of {1 << 32:,} lanes that began, such as 1"):
        RunState.from_plain({**run.to_plain(), "checksum": ""})


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


def test_a_state_with_its_checksum_stays_below_4_kib_whatever_the_shuffle_buffer(data: Data) -> None:
    sizes = []
    for buffer in (100, 10_000):
        loader = get_savable_loader(train(data, config(lanes=48), shuffle_buffer_size=buffer))
        for _ in zip(range(96), loader, strict=False):
            pass
        state = loader.save_state_rank()
        assert len(state["lane"]) == 48
        sizes.append(len(json.dumps(state)))
    assert max(sizes) <= 4096
