"""Concatenation of datasets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.concat import ConcatDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.pipeline.stages.shuffle_buffer import ShuffleBufferDataset
from loader.testing.stage import Values, check_resumes, values
from loader.training.loaders.data_loader import SavableDataLoader


def is_odd(item: Any) -> Any:
    return item % 2


def each_twice(item: int) -> Iterator[Any]:
    yield item
    yield -item


def neighbours(samples: list[int]) -> list[list[int]]:
    return [samples[start : start + 2] for start in range(0, len(samples), 2)]


def dealt(dataset: ConcatDataset[Any], count: int) -> list[int]:
    """Return the values of all lanes, visited in turn."""
    lanes = [values(dataset, number, count) for number in range(count)]
    return [lanes[number % count][number // count] for number in range(sum(map(len, lanes)))]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_micro_batches_follow_the_order_of_the_datasets_for_any_lanes(count: int) -> None:
    parts = [Values(range(5)), Values([]), Values(range(10, 14)), Values(range(20, 21)), Values(range(30, 38))]
    concat = ConcatDataset(*parts)

    assert dealt(concat, count) == [*range(5), *range(10, 14), 20, *range(30, 38)]
    assert concat.items == len(concat) == 18


def test_without_known_lengths_each_lane_follows_the_order_of_the_datasets() -> None:
    concat = ConcatDataset(FilterDataset(Values(range(9)), is_odd), Values(range(10, 14)))

    assert concat.items is None
    assert [values(concat, number, 2) for number in range(2)] == [[10, 12], [1, 3, 5, 7, 11, 13]]


def test_a_restored_lane_continues_where_it_stopped() -> None:
    packed: PackingDataset[Any] = PackingDataset(MapDataset(Values(range(10)), each_twice), 6, neighbours, list)
    check_resumes(ConcatDataset(Values(range(7), skips=(1,)), packed, Values(range(20, 30))), count=3)
    check_resumes(ConcatDataset(ConcatDataset(Values(range(7)), Values(range(10, 15))), Values(range(20, 29))), count=3)


@pytest.mark.parametrize("done", [7, 9])
def test_items_that_wait_above_do_not_let_other_lanes_take_ended_datasets_again(done: int) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
    numbers = MapDataset(Values(range(1, 30), worker_config=config), each_twice)
    dataset = ConcatDataset(BatchDataset(numbers, 4, list), BatchDataset(numbers, 7, list))
    loader = SavableDataLoader(ShuffleBufferDataset(dataset, 2))
    given = list(islice(loader, done))
    restored = SavableDataLoader(ShuffleBufferDataset(dataset, 2))
    restored.restore_state_rank(json.loads(json.dumps(loader.save_state_rank())))
    given += list(restored)

    expected = dict.fromkeys((*range(1, 30), *range(-29, 0)), 2)
    assert Counter(number for batch in given for number in batch) == expected
    assert sum(len(batch) not in (4, 7) for batch in given) <= 2


def test_only_the_last_dataset_may_be_endless() -> None:
    endless = Values(range(3), repeats=True)

    assert values(ConcatDataset(Values([7]), endless), most=5) == [7, 0, 1, 2, 0]
    with pytest.raises(ConfigError, match="dataset 0 of 2 repeats without end"):
        ConcatDataset(endless, Values([7]))


@pytest.mark.parametrize("arguments", [(), (3,), ([Values([1])],)])
def test_other_objects_are_refused(arguments: Any) -> None:
    with pytest.raises(ConfigError, match="expected datasets"):
        ConcatDataset(*arguments)
