"""Repeating: passes one after another, on a lane or above a stage that counts on the rank."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.pipeline.contract.rank_stage import RankStage
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.epochize import EpochizeDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.limit import LimitDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.pipeline.stages.repeat import RepeatDataset
from loader.pipeline.stages.shuffle_buffer import ShuffleBufferDataset
from loader.testing.stage import Values, check_resumes, lane, steps, values
from loader.training.loaders.data_loader import SavableDataLoader


class ForValidation(Values):
    @property
    def starts_over(self) -> bool:
        return True


def is_odd(item: Any) -> Any:
    return item % 2


def each_twice(item: int) -> Iterator[Any]:
    yield item
    yield -item


def neighbours(samples: list[int]) -> list[list[int]]:
    return [samples[start : start + 2] for start in range(0, len(samples), 2)]


def negative(item: int) -> int:
    return -item


def dealt(dataset: RepeatDataset[Any], count: int, total: int) -> list[int]:
    """Return the values of all lanes, visited in turn."""
    lanes = [values(dataset, number, count, most=-(-total // count)) for number in range(count)]
    return [lanes[number % count][number // count] for number in range(total)]


# ------------------------------------------------------------------------------------------------ on lanes


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("repeats", [0, 1, 3, 2.5, 0.4])
def test_passes_follow_each_other_for_any_lanes(repeats: float, count: int) -> None:
    repeated = RepeatDataset(Values(range(5)), repeats=repeats)
    total = int(5 * repeats)

    assert dealt(repeated, count, total) == [number % 5 for number in range(total)]
    assert repeated.items == len(repeated) == total
    assert sum(len(values(repeated, number, count)) for number in range(count)) == total


@pytest.mark.parametrize("count", [1, 3, 7])
def test_without_a_number_it_repeats_without_end(count: int) -> None:
    repeated = RepeatDataset(Values(range(5)))

    assert dealt(repeated, count, 40) == [number % 5 for number in range(40)]
    assert repeated.repeats
    assert repeated.items is None


def test_without_known_lengths_each_lane_repeats_its_own_pass() -> None:
    repeated = RepeatDataset(FilterDataset(Values(range(9)), is_odd), repeats=2)

    assert [values(repeated, number, 2) for number in range(2)] == [[], [1, 3, 5, 7, 1, 3, 5, 7]]


def test_each_pass_of_a_shuffled_dataset_has_another_order() -> None:
    items = values(RepeatDataset(ShuffleBufferDataset(Values(range(20)), 10), repeats=3))
    passes = [tuple(items[start : start + 20]) for start in (0, 20, 40)]

    assert [sorted(each) for each in passes] == 3 * [list(range(20))]
    assert len(set(passes)) == 3


@pytest.mark.parametrize("repeats", [3, 2.5, None])
def test_a_restored_lane_continues_where_it_stopped(repeats: float | None) -> None:
    source = Values(range(10), skips=(1,))

    check_resumes(RepeatDataset(MapDataset(source, negative), repeats=repeats), count=3, most=40)


def test_a_restored_lane_continues_within_longer_chains() -> None:
    packed: PackingDataset[Any] = PackingDataset(MapDataset(Values(range(7)), each_twice), 5, neighbours, list)
    repeated = RepeatDataset(ShuffleBufferDataset(RepeatDataset(packed, repeats=2), 4))

    check_resumes(repeated, most=40)
    check_resumes(BatchDataset(repeated, 3, list), most=20)


def test_a_lane_that_never_gets_an_item_ends() -> None:
    nothing = RepeatDataset(Values([]))
    only_for_lane_1 = RepeatDataset(FilterDataset(Values(range(9)), is_odd))

    assert values(nothing) == []
    assert values(only_for_lane_1, 0, 2, most=4) == []
    assert Counter(values(only_for_lane_1, 1, 2, most=8)) == {1: 2, 3: 2, 5: 2, 7: 2}


class OpenedPasses(FilterDataset[Any]):
    """Count how often the dataset is opened in this process."""

    passes = 0

    def open(self, lane: Any, state: Any) -> Any:
        type(self).passes += 1
        return super().open(lane, state)


def test_an_empty_lane_is_opened_once_if_all_passes_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenedPasses, "passes", 0)

    running = RepeatDataset(OpenedPasses(ForValidation([]), is_odd)).open(lane(), {})
    for _ in range(2):
        with pytest.raises(StopIteration):
            running.next()
    assert OpenedPasses.passes == 2


def test_all_items_come_with_fewer_items_than_lanes() -> None:
    repeated = RepeatDataset(Values(["the only one"]))

    assert [values(repeated, number, 64, most=3) for number in range(64)] == 64 * [3 * ["the only one"]]


def test_a_fraction_of_a_pass_of_unknown_length_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"whole number of repeats, found 1\.5"):
        RepeatDataset(FilterDataset(Values(range(9)), is_odd), repeats=1.5)


@pytest.mark.parametrize("repeats", [-1, float("inf"), float("nan")])
def test_an_invalid_number_of_repeats_is_refused(repeats: float) -> None:
    with pytest.raises(ConfigError, match="repeats of at least 0, or None"):
        RepeatDataset(Values([1]), repeats=repeats)


def test_endlessly_repeated_validation_does_not_start_over() -> None:
    assert RepeatDataset(ForValidation([1]), repeats=2).starts_over
    assert not RepeatDataset(ForValidation([1])).starts_over


# -------------------------------------------------------------------------------------------- on the rank


def without_end(count: int) -> Values:
    """Return endlessly repeated values on one lane; an endless run has no empty lanes."""
    alone = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    return Values(range(count), repeats=True, worker_config=alone)


def rest_after(dataset: Any, steps_done: int) -> list[int]:
    """Return the rest of an iteration after its state was saved and restored at a step."""
    loader = SavableDataLoader(dataset)
    given = iter(loader)
    for _ in range(steps_done):
        next(given)
    state = json.loads(json.dumps(loader.save_state_rank()))
    uninterrupted = list(given)
    restored = SavableDataLoader(pickle.loads(pickle.dumps(dataset)))
    restored.restore_state_rank(state)
    assert list(restored) == uninterrupted
    return uninterrupted


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (RepeatDataset(EpochizeDataset(without_end(9), 4), repeats=3), [*range(9), 0, 1, 2]),
        (
            RepeatDataset(MapDataset(EpochizeDataset(without_end(6), 4), negative), repeats=2),
            [0, -1, -2, -3, -4, -5, 0, -1],
        ),
        (RepeatDataset(LimitDataset(ForValidation(range(9)), 4), repeats=2), [0, 1, 2, 3, 0, 1, 2, 3]),
        (RepeatDataset(LimitDataset(ForValidation(range(3)), 4), repeats=2), [0, 1, 2, 0, 1, 2]),
        (RepeatDataset(LimitDataset(Values(range(9)), 4), repeats=2), list(range(8))),
        (RepeatDataset(RepeatDataset(LimitDataset(ForValidation(range(9)), 2), repeats=2), repeats=2), 4 * [0, 1]),
    ],
)
def test_above_a_stage_that_counts_on_the_rank_its_iterations_are_repeated(dataset: Any, expected: list[int]) -> None:
    assert isinstance(dataset, RankStage)
    assert len(dataset) == len(expected)
    for done in range(len(expected) + 1):
        assert rest_after(dataset, done) == expected[done:], done


def test_virtual_epochs_repeated_without_a_number_are_endless() -> None:
    loader = SavableDataLoader(RepeatDataset(EpochizeDataset(Values(range(9), repeats=True), 4)))

    assert [item for item, _ in zip(loader, range(30), strict=False)] == [number % 9 for number in range(30)]


def test_an_empty_dataset_repeated_without_end_is_empty() -> None:
    assert list(SavableDataLoader(RepeatDataset(LimitDataset(Values(range(9)), 0)))) == []


def test_on_the_rank_a_fraction_of_a_pass_is_refused() -> None:
    with pytest.raises(ConfigError, match="whole number of repeats"):
        RepeatDataset(LimitDataset(Values(range(9)), 4), repeats=1.5)


def test_a_stage_that_joins_items_of_the_rank_is_refused_when_it_is_opened() -> None:
    dataset = RepeatDataset(BatchDataset(LimitDataset(Values(range(9)), 4), 2, list))

    with pytest.raises(ConfigError, match="apply limit last"):
        next(iter(SavableDataLoader(dataset)))


def test_items_of_a_repeated_pass_keep_their_ids() -> None:
    given = steps(RepeatDataset(Values(range(2)), repeats=2), lane(), most=9)

    assert [step.item_id for step in given] == [
        ("1 repeat", number, position) for number in (0, 1) for position in (0, 1)
    ]
