"""States with any value changed are refused by a StateError."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loader import (
    BatchDataset,
    BlendDataset,
    ConcatDataset,
    IterMapDataset,
    RepeatDataset,
    SavableDataset,
    ShuffleBufferDataset,
    SortPoolDataset,
    StateError,
    TextSample,
    WorkerConfig,
    get_savable_loader,
)
from loader.pipeline.stages.wrapper import BaseWrapperDataset
from loader.training.states.run_state import checksum_of
from tests.e2e.drawing_encoders import Grouping, Packing, PackingYields, Restorable, YieldingBatches, number_in
from tests.e2e.drawing_pipelines import Data, train, two_and_two, write_data
from tests.elastic_runs import through_json

Build = Callable[[Data, WorkerConfig], SavableDataset[Any]]
Path_ = tuple[Any, ...]


def packs(data: Data, config: WorkerConfig, **options: Any) -> SavableDataset[Any]:
    return train(data, config, encoder=PackingYields, packing_buffer_size=7, **options)


def shuffled_blend(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    """Return a blend by volume of packs and samples, shuffled and batched."""
    inputs = packs(data, config, batch_size=None), train(data, config, path="more", batch_size=None, encoder=Restorable)
    blend: SavableDataset[Any] = BlendDataset(
        (inputs[0], 2), (inputs[1], 1), size=lambda sample: 1 + len(sample.__key__) % 2, unit="keys"
    )
    return BatchDataset(ShuffleBufferDataset(blend, 5), 3)


def sorted_pools(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    samples = train(data, config, batch_size=None, encoder=Restorable)
    return SortPoolDataset(IterMapDataset(samples, two_and_two), 6, number_in, batch_size=2)


def repeated_groups(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    return RepeatDataset(train(data, config, path="more", repeat=False, encoder=Grouping))


def concatenated(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    parts = [
        train(data, config, path=path, repeat=False, batch_size=None, encoder=Restorable) for path in ("more", "texts")
    ]
    return BatchDataset(ShuffleBufferDataset(ConcatDataset(*parts), 4), 3)


pytestmark = pytest.mark.filterwarnings("ignore:Numbered iterates its samples itself")


class Numbered(BaseWrapperDataset[Any]):
    """A user's dataset, which yields samples of its own, also before it takes any."""

    _savable_fields = ("taken",)

    def __init__(self, dataset: SavableDataset[Any]) -> None:
        super().__init__(dataset)
        self.taken = 0

    def reset_state_own(self) -> None:
        self.taken = 0

    def can_restore_sample(self) -> bool:
        return True

    def restore_sample(self, restore_key: Any) -> Any:
        return TextSample(__key__="own", __restore_key__=restore_key, text=str(restore_key))

    def __iter__(self) -> Iterator[Any]:
        yield self.restore_sample(("taken", self.taken))
        for sample in self.dataset:
            self.taken += 1
            yield sample
            if self.taken % 3 == 0:
                yield self.restore_sample(("taken", self.taken))


def of_a_user(data: Data, config: WorkerConfig) -> SavableDataset[Any]:
    samples = Numbered(train(data, config, batch_size=None, encoder=Restorable))
    return BatchDataset(ShuffleBufferDataset(samples, 6), 3)


BUILDS: dict[str, tuple[Build, int]] = {
    "packs of generators": (packs, 9),
    "one pass of packs": (
        partial(train, path="more", repeat=False, encoder=Packing, packing_buffer_size=11, batch_size=1),
        8,
    ),
    "one pass of groups": (partial(train, path="more", repeat=False, encoder=Grouping), 14),
    "batches by generators": (partial(train, encoder=YieldingBatches), 9),
    "shuffled blend": (shuffled_blend, 9),
    "sorted pools": (sorted_pools, 9),
    "repeated groups": (repeated_groups, 13),
    "concatenated": (concatenated, 16),
    "a user's dataset": (of_a_user, 1),
}
"""Chains, and the micro-batches before their states."""

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 3, 39, 99, 1 << 40, (1 << 53) - 1, 1 << 63, 0.5, float("nan"), float("inf"), 1e300),
    *("x", "1", "lane", "own", [], {}, [1], [[]], ["lane", 0, 1], ["lane", 1, 39], ["lane", 9, 1], {"a": 1}),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("damaged"))


def config() -> WorkerConfig:
    return WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)


@pytest.fixture(scope="module")
def states(data: Data) -> dict[str, dict[str, Any]]:
    found = {}
    for name, (build, batches) in BUILDS.items():
        loader = get_savable_loader(build(data, config()))
        assert len(list(islice(loader, batches))) == batches, name
        found[name] = through_json(loader.save_state_rank())
    return found


def paths_in(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Yield the places of all values in nested dicts and lists."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*at, key)
        yield from paths_in(inner, (*at, key))


def damage(state: dict[str, Any], random: Random) -> dict[str, Any]:
    """Return a state in which one value of a lane is another one, missing, or repeated."""
    damaged = copy.deepcopy(state)
    *place, key = random.choice([*paths_in(damaged["lane"])])
    container = damaged["lane"]
    for step in place:
        container = container[step]
    operation = random.randrange(4)
    if operation == 0:
        del container[key]
    elif operation == 1 and isinstance(container, list):
        container.insert(key, copy.deepcopy(random.choice(container)))
    else:
        container[key] = copy.deepcopy(random.choice(VALUES))
    return damaged


def test_the_states_hold_ids_of_every_form(states: dict[str, dict[str, Any]]) -> None:
    text = {name: str(state["lane"]) for name, state in states.items()}
    assert "'lane', " in text["one pass of packs"]
    assert "'lane', " in text["one pass of groups"]
    assert "BlendDataset', 0, [" in text["shuffled blend"]
    assert "ConcatDataset', 1, " in text["concatenated"]
    assert ", -1, 'own', ['taken', 0]]" in text["a user's dataset"]


@pytest.mark.parametrize("name", BUILDS)
def test_the_states_themselves_run(name: str, data: Data, states: dict[str, dict[str, Any]]) -> None:
    loader = get_savable_loader(BUILDS[name][0](data, config()))
    loader.restore_state_rank(states[name])
    assert list(islice(loader, 4))


@pytest.mark.parametrize("name", BUILDS)
@given(st.integers(0, 1 << 32))
def test_a_damaged_state_is_refused(name: str, data: Data, states: dict[str, dict[str, Any]], seed: int) -> None:
    damaged = damage(states[name], Random(seed))
    if checksum_of(damaged) == states[name]["checksum"]:
        return  # a value was replaced by itself
    loader = get_savable_loader(BUILDS[name][0](data, config()))
    with pytest.raises(StateError):
        loader.restore_state_rank(damaged)
