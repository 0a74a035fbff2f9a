"""Grouping: micro-batches of samples with equal keys."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from loader.errors import ConfigError, SkipSample
from loader.pipeline.contract.lane import LaneInput
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.stages.group_batch import GroupBatchDataset
from loader.pipeline.stages.map import MapDataset
from loader.samples.hook_marks import stateless
from loader.samples.hooks import hook_context
from loader.testing.stage import Values, check_resumes, lane, steps, values


def first_letter(sample: str) -> tuple[str, None]:
    return sample[0], None


def by_parity_in_threes_and_twos(sample: int) -> tuple[bool, int]:
    return sample % 2 == 0, 3 if sample % 2 else 2


def by_parity_unless_seven(sample: int) -> Any:
    if sample == 7:
        raise SkipSample
    if sample == 8:
        raise ValueError("an eight")
    return ("odd" if sample % 2 else None), None


def size_of_the_sample(sample: int) -> tuple[str, int]:
    return "all", sample


def no_size(sample: int) -> tuple[int, None]:
    return sample, None


def unhashable(sample: Any) -> Any:
    return [sample], 1


@stateless(restore_seeds=True)
def with_random(sample: int) -> tuple[int, float]:
    return sample, random.random()


def by_random(sample: tuple[int, float]) -> tuple[int, None]:
    return int(3 * sample[1]), None


def with_context(sample: Any) -> Any:
    return sample, hook_context().batch_index, hook_context().sample_index


def by_parity_of_first(sample: tuple[int, int, int]) -> tuple[int, None]:
    return sample[0] % 2, None


def by_parity_drawing_a_number(sample: int) -> tuple[int, None]:
    random.random()
    return sample % 2, None


def with_a_number(samples: list[int]) -> tuple[list[int], float]:
    return samples, random.random()


def fails_of_twos(samples: list[int]) -> list[int]:
    if 2 in samples:
        raise ValueError("a two")
    return samples


def test_full_batches_come_first_then_partial_ones_in_the_order_of_their_first_samples() -> None:
    samples = Values(["a1", "b1", "c1", "a2", "a3", "c2", "b2", "b3"])

    assert values(GroupBatchDataset(samples, 2, first_letter, list)) == [
        ["a1", "a2"],
        ["c1", "c2"],
        ["b1", "b2"],
        ["a3"],
        ["b3"],
    ]


def test_drop_last_drops_partial_batches() -> None:
    samples = Values(["a1", "b1", "a2", "a3"])

    assert values(GroupBatchDataset(samples, 2, first_letter, list, drop_last=True)) == [["a1", "a2"]]


def test_each_group_may_have_another_size() -> None:
    batches = values(GroupBatchDataset(Values(range(10)), None, by_parity_in_threes_and_twos, list))

    assert batches == [[0, 2], [1, 3, 5], [4, 6], [7, 9], [8]]


def test_the_first_sample_of_a_batch_determines_its_size() -> None:
    assert values(GroupBatchDataset(Values([2, 9, 1, 3, 1, 1]), None, size_of_the_sample, list)) == [
        [2, 9],
        [1],
        [3, 1, 1],
    ]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("criterion", [by_parity_in_threes_and_twos, by_parity_unless_seven])
def test_a_restored_lane_continues_where_it_stopped(criterion: Callable[..., Any], drop_last: bool) -> None:
    samples = Values(range(40), skips=(3, 5))

    check_resumes(GroupBatchDataset(samples, 4, criterion, list, drop_last=drop_last), count=3)


def test_a_restored_lane_rebuilds_groups_of_random_keys() -> None:
    check_resumes(GroupBatchDataset(MapDataset(Values(range(40)), with_random), 3, by_random, list))


def test_rebuilding_groups_draws_no_random_numbers() -> None:
    check_resumes(GroupBatchDataset(Values(range(30)), 3, by_parity_drawing_a_number, with_a_number), loads=False)


def test_rebuilt_samples_see_their_first_batch_and_sample_index() -> None:
    samples = MapDataset(Values(range(30), repeats=True), with_context)

    check_resumes(GroupBatchDataset(samples, 4, by_parity_of_first, list), count=3, most=15, loads=False)


def test_a_batch_that_fails_is_skipped() -> None:
    given = steps(GroupBatchDataset(Values(range(6)), 2, by_parity_unless_seven, fails_of_twos), lane(), most=9)

    assert [step.value for step in given] == [SKIPPED, [1, 3], [4], [5]]


def test_samples_with_an_invalid_key_are_skipped() -> None:
    assert values(GroupBatchDataset(Values(range(3)), 1, unhashable, list)) == []


def test_a_group_without_a_size_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"batch size of at least 1 for the group 5, found None"):
        steps(GroupBatchDataset(Values([5]), None, no_size, list), lane(), most=1)


def test_a_fixed_size_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="fixed_batch_size of at least 1, found 0"):
        GroupBatchDataset(Values([]), 0, no_size)


def dropped(upstream: LaneInput, taken: Callable[[LaneInput], list[Any]] = LaneInput.released_by_others) -> list[Any]:
    taken(upstream)
    return []


def nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize(("name", "fault"), [("released_by_others", dropped), ("note_change", nothing)])
def test_the_check_finds_stages_that_lose_items_of_other_lanes(
    monkeypatch: pytest.MonkeyPatch, name: str, fault: Any
) -> None:
    stage = GroupBatchDataset(Values(range(40)), 4, by_first_digit, list)
    check_resumes(stage, count=3)
    monkeypatch.setattr(LaneInput, name, fault)
    with pytest.raises(AssertionError):
        check_resumes(stage, count=3)


def by_first_digit(sample: int) -> tuple[str, None]:
    return str(sample)[0], None
