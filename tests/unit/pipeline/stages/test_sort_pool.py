"""Batches of items of like cost."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from loader.errors import ConfigError, SkipSample
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.sort_pool import SortPoolDataset
from loader.samples.hook_marks import stateless
from loader.testing.stage import Values, check_resumes, lane, steps, values

LENGTHS = random.Random(7).choices(range(1000), k=400)


def cost(item: Any) -> float:
    return item if isinstance(item, int) else float(item[0])


def as_list(items: list[Any]) -> list[Any]:
    return items


def pool(source: Any, size: int = 40, batch_size: int = 4, **options: Any) -> SortPoolDataset[Any]:
    return SortPoolDataset(source, size, cost, batch_size=batch_size, batcher=as_list, **options)


@stateless(restore_seeds=True)
def with_random(item: int) -> tuple[int, float]:
    return item, random.random()


def test_each_item_comes_once_and_batches_have_like_costs() -> None:
    batches = values(pool(Values(LENGTHS)), most=200)
    assert sorted(item for batch in batches for item in batch) == sorted(LENGTHS)
    for first in range(0, 100, 10):
        of_pool = batches[first : first + 10]
        assert sorted(item for batch in of_pool for item in batch) == sorted(LENGTHS[4 * first : 4 * first + 40])
        in_order = sorted(of_pool)
        assert all(max(one) <= min(other) for one, other in pairwise(in_order))
        assert of_pool != in_order


def test_lanes_have_batches_of_like_cost_at_the_same_time() -> None:
    dataset = pool(Values(LENGTHS * 4), size=100)
    of_lanes = [[sum(batch) for batch in values(dataset, number, 4, most=100)] for number in range(4)]
    together = [max(sums) - min(sums) for sums in zip(*of_lanes, strict=True)]
    shifted = [sums[number : len(sums) - 3 + number] for number, sums in enumerate(of_lanes)]
    in_random_order = [max(sums) - min(sums) for sums in zip(*shifted, strict=True)]
    assert sum(together) / len(together) < sum(in_random_order) / len(in_random_order) / 3


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_restored_lane_continues_where_it_stopped(drop_last: bool) -> None:
    source = Values(range(45), skips=(2, 9))
    check_resumes(pool(MapDataset(source, with_random), size=8, batch_size=2, drop_last=drop_last), count=2)
    check_resumes(pool(MapDataset(pool(source, size=6, batch_size=3), cost_of_batch), size=4, batch_size=2))


def cost_of_batch(batch: list[int]) -> tuple[int, list[int]]:
    return sum(batch), batch


def test_the_last_batch_may_be_short_or_dropped() -> None:
    sizes = [len(batch) for batch in values(pool(Values(range(10)), size=8))]
    assert sorted(sizes) == [2, 4, 4]
    assert [len(batch) for batch in values(pool(Values(range(10)), size=8, drop_last=True))] == [4, 4]


def test_a_dropped_short_batch_is_noted() -> None:
    own = lane()
    steps(pool(Values(range(10)), size=8, drop_last=True), own, most=9)
    assert own.failures.remainder == "drop_last of SortPoolDataset dropped 2 samples, fewer than batch_size=4"


def no_multiples_of_five(item: int) -> float:
    if item % 5 == 0:
        raise SkipSample
    return float(item)


def test_items_without_cost_are_skipped() -> None:
    dataset = SortPoolDataset(Values(range(20)), 8, no_multiples_of_five, batch_size=4, batcher=as_list)
    found = values(dataset)
    assert sorted(item for batch in found for item in batch) == [item for item in range(20) if item % 5]
    assert [len(batch) for batch in found] == [4] * 4


def test_a_state_has_no_items() -> None:
    dataset = SortPoolDataset(Values(["dddd", "a", "ccc", "bb"] * 4), 4, len, batch_size=2, batcher=as_list)
    state = json.loads(steps(dataset, lane(), most=2)[1].state)
    assert state["0 values"] == 4
    assert state["1 SortPoolDataset"]["pools"] == 1
    assert state["1 SortPoolDataset"]["batches"] in ([[[1, 0], [3, 0]]], [[[2, 0], [0, 0]]])


@pytest.mark.parametrize(("size", "batch_size"), [(0, 1), (10, 4), (4, 0)])
def test_sizes_that_do_not_fit_are_refused(size: int, batch_size: int) -> None:
    with pytest.raises(ConfigError, match="multiple of batch_size"):
        pool(Values([1]), size=size, batch_size=batch_size)
