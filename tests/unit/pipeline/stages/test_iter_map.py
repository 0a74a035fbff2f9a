"""A function of the iterator of items, restored from the items taken since it last started over."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, islice, takewhile
from typing import Any

import pytest

from loader.errors import ConfigError, FormatError, SkipSample
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.iter_map import IterMapDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.samples.hook_marks import stateless
from loader.testing.stage import Values, check_resumes, lane, steps, values


def pairs(items: Any) -> Any:
    return zip(items, items, strict=False)


def odd_ones(items: Any) -> Any:
    return (item for item in items if item % 2)


def each_twice(items: Any) -> Iterator[Any]:
    for item in items:
        yield item
        yield item


def sorted_by_fours(items: Any) -> Iterator[Any]:
    while waiting := list(islice(items, 4)):
        yield from sorted(waiting, reverse=True)


def everything_at_once(items: Any) -> list[int]:
    return [sum(items)]


def no_sevens(items: Any) -> Iterator[Any]:
    for item in items:
        if item % 7 == 0:
            raise ValueError("a seven")
        if item % 5 == 0:
            raise SkipSample
        yield item


@stateless(restore_seeds=True)
def random_ones_with_random(items: Any) -> Iterator[Any]:
    for item in items:
        if random.random() < 0.5:
            yield item, random.random()
            yield item, random.random()


@stateless(restore_seeds=True)
def with_random(item: Any) -> Any:
    return item, random.random()


def running_sum_and_end(items: Any) -> Iterator[Any]:
    yield from accumulate(items)
    yield "end"


def start_and_all(items: Any) -> Iterator[Any]:
    yield "start"
    yield from items


def up_to_three(items: Any) -> Any:
    return takewhile(is_below_three, items)


def is_below_three(item: int) -> bool:
    return item < 3


def first_three(items: Any) -> Any:
    return islice(items, 3)


def fails_at_the_end(items: Any) -> Iterator[Any]:
    yield from items
    raise ValueError("the end")


def catches_everything(items: Any) -> Iterator[Any]:
    while True:
        try:
            item = next(items, None)
        except Exception:  # noqa: BLE001 - as careless code does
            yield "nothing"
        else:
            if item is None:
                return
            yield item


def fails_at_two(item: int) -> int:
    if item == 2:
        raise FormatError("no tar")
    return item


def neighbours(samples: list[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    return [samples[start : start + 2] for start in range(0, len(samples), 2)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (pairs, [(0, 1), (2, 3), (4, 5)]),
        (odd_ones, [1, 3, 5]),
        (each_twice, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]),
        (sorted_by_fours, [3, 2, 1, 0, 6, 5, 4]),
        (everything_at_once, [21]),
        (up_to_three, [0, 1, 2]),
        (running_sum_and_end, [0, 1, 3, 6, 10, 15, 21, "end"]),
    ],
)
def test_the_stage_yields_the_items_of_the_function(function: Callable[..., Any], expected: list[Any]) -> None:
    assert values(IterMapDataset(Values(range(7)), function)) == expected


def test_with_restart_after_the_function_is_called_for_some_items_at_a_time() -> None:
    source = Values(range(7), skips=(1,))

    assert values(IterMapDataset(source, running_sum_and_end, restart_after=3)) == [0, 2, 5, "end", 4, 9, 15, "end"]
    assert values(IterMapDataset(source, first_three, restart_after=4)) == [0, 2, 3, 5, 6]
    assert values(IterMapDataset(source, start_and_all, restart_after=6)) == ["start", 0, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "function", [pairs, odd_ones, each_twice, sorted_by_fours, everything_at_once, no_sevens, random_ones_with_random]
)
@pytest.mark.parametrize("restart_after", [None, 1, 6])
@pytest.mark.sampled(3)
def test_a_restored_lane_continues_where_it_stopped(function: Callable[..., Any], restart_after: int | None) -> None:
    source = Values(range(40), skips=(2, 9))

    check_resumes(IterMapDataset(source, function, restart_after=restart_after), count=2)


@pytest.mark.parametrize("function", [running_sum_and_end, first_three, start_and_all])
def test_a_function_with_memory_is_restored_at_its_restart(function: Callable[..., Any]) -> None:
    check_resumes(IterMapDataset(Values(range(40)), function, restart_after=7), count=2)


def test_a_restored_lane_continues_within_longer_chains() -> None:
    mapped = IterMapDataset(MapDataset(Values(range(20)), each_twice_of), random_ones_with_random)
    filtered = FilterDataset(IterMapDataset(mapped, sorted_by_fours), any)

    check_resumes(BatchDataset(filtered, 3, list))
    check_resumes(PackingDataset(filtered, 5, neighbours, list))


def each_twice_of(item: int) -> Iterator[Any]:
    yield item
    yield item


def test_a_state_has_only_the_items_taken_since_the_function_started_over() -> None:
    states = [
        json.loads(step.state) for step in steps(IterMapDataset(Values(range(9)), sorted_by_fours), lane(), most=9)
    ]

    held = [state.get("1 IterMapDataset") for state in states]
    of_four = [[0, 0], [1, 0], [2, 0], [3, 0]]
    assert held[:5] == [None, *({"held": of_four, "given": given} for given in range(1, 5))]
    assert held[5] == {"held": [[number, 4] for number in range(4, 8)], "given": 1}


def test_after_an_error_the_function_is_called_again_for_later_items() -> None:
    given = steps(IterMapDataset(Values(range(1, 9)), no_sevens), lane(), most=20)

    assert [step.value for step in given] == [1, 2, 3, 4, SKIPPED, 6, SKIPPED, 8]
    assert [step.item_id for step in given if step.value is SKIPPED] == [(4,), (6,)]


def test_a_failure_after_the_last_item_ends_the_pass() -> None:
    for function, expected in ((no_sevens, [1, 2, SKIPPED]), (fails_at_the_end, [1, 2, 7, SKIPPED])):
        assert [step.value for step in steps(IterMapDataset(Values([1, 2, 7]), function), lane(), most=9)] == expected
        check_resumes(IterMapDataset(Values([1, 2, 7]), function))


@pytest.mark.parametrize("restart_after", [None, 3])
def test_a_function_that_has_ended_is_not_called_again_after_a_restore(restart_after: int | None) -> None:
    check_resumes(
        BatchDataset(IterMapDataset(Values(range(6)), everything_at_once, restart_after=restart_after), 4, list)
    )


@pytest.mark.parametrize("function", [pairs, catches_everything])
def test_an_error_of_a_stage_below_is_not_counted_for_the_function(function: Callable[..., Any]) -> None:
    failing = MapDataset(Values(range(9)), fails_at_two)

    with pytest.raises(FormatError, match="no tar"):
        steps(IterMapDataset(failing, function), lane(handler=reraise), most=9)


def reraise(error: Exception, sample: int, sources: Any) -> None:
    raise error


def test_restart_after_0_items_is_refused() -> None:
    with pytest.raises(ConfigError, match="restart_after of at least 1"):
        IterMapDataset(Values([]), partial(pairs), restart_after=0)
