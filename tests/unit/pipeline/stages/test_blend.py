"""Blending by weight, which keeps the order within each dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.pipeline.reading.order_plan import samples_of_round
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.blend import BlendDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.pipeline.stages.shuffle_buffer import ShuffleBufferDataset
from loader.testing.stage import Values, check_resumes, lane, steps, values


def no_multiple_of_three(sample: Any) -> Any:
    return sample % 3


def positive(sample: int) -> int:
    return 1 + sample


def negative(sample: int) -> int:
    return -1 - sample


def twice(sample: Any) -> Iterator[Any]:
    yield sample
    yield sample


def neighbours(samples: list[int]) -> list[list[int]]:
    return [samples[start : start + 2] for start in range(0, len(samples), 2)]


def endless(first: Any, count: int = 10) -> Any:
    return Values(range(first, first + count), repeats=True)


@pytest.mark.parametrize("as_one_argument", [False, True])
def test_items_come_by_weight(as_one_argument: bool) -> None:
    pairs = ((endless(0), 6), (endless(100), 0.5), (endless(200), 3.5))
    blend: BlendDataset[Any] = BlendDataset(pairs) if as_one_argument else BlendDataset(*pairs)
    counts = Counter(item // 100 for item in values(blend, most=2560))

    assert [counts[place] for place in range(3)] == pytest.approx([6 * 256, 0.5 * 256, 3.5 * 256], abs=1)


def test_each_dataset_gives_its_items_in_its_order() -> None:
    blend: BlendDataset[Any] = BlendDataset((Values(range(40)), 1), (Values(range(100, 140)), 1))
    items = values(blend, 1, 2)

    assert [item for item in items if item < 100] == list(range(1, 40, 2))
    assert [item for item in items if item >= 100] == list(range(101, 140, 2))


def test_when_a_dataset_ends_the_others_continue() -> None:
    parts = [Values(range(3)), Values(range(100, 130)), Values(range(200, 260)), Values([])]
    blend: BlendDataset[Any] = BlendDataset(*((part, 1) for part in parts))
    items = values(blend, most=200)

    assert sorted(items) == [*range(3), *range(100, 130), *range(200, 260)]
    assert all(item >= 200 for item in items[-25:])
    # The other two datasets keep their ratio.
    assert Counter(item // 100 for item in items[3 : 3 + 40])[1] == pytest.approx(19, abs=4)


def test_each_lane_has_another_sequence_of_datasets() -> None:
    blend: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 1))

    turns = [[item // 100 for item in values(blend, number, 4, most=50)] for number in range(4)]
    assert len({tuple(turn) for turn in turns}) == 4


def test_equal_datasets_have_different_orders() -> None:
    parts = [MapDataset(ShuffleBufferDataset(Values(range(60)), 20), times) for times in (positive, negative)]
    items = values(BlendDataset((parts[0], 1), (parts[1], 1)), most=60)

    first, second = [item for item in items if item > 0], [-item for item in items if item < 0]
    assert first[:10] != second[:10]


@pytest.mark.parametrize("lengths", [(40, 30), (7, 50), (0, 20), (60, 60)])
@pytest.mark.sampled(2)
def test_a_restored_lane_continues_where_it_stopped(lengths: tuple[int, int]) -> None:
    blend: BlendDataset[Any] = BlendDataset(
        (Values(range(lengths[0])), 2), (Values(range(100, 100 + lengths[1]), skips=(2,)), 1)
    )

    check_resumes(blend, count=2, most=100)


def test_a_restored_lane_continues_within_blended_chains() -> None:
    packed: PackingDataset[Any] = PackingDataset(MapDataset(Values(range(30)), twice), 6, neighbours, sum)
    filtered = FilterDataset(MapDataset(endless(0), twice), no_multiple_of_three)
    inner: BlendDataset[Any] = BlendDataset((packed, 0.2), (Values(range(100, 120)), 0.8))

    check_resumes(BlendDataset((inner, 3), (filtered, 1), (BatchDataset(endless(500), 2, sum), 1)), count=2, most=40)
    check_resumes(
        BatchDataset(MapDataset(BlendDataset((inner, 3), (filtered, 1)), negative), 3, list), count=2, most=30
    )


def test_a_blend_that_has_ended_stays_ended() -> None:
    blend: BlendDataset[Any] = BlendDataset((Values(range(3)), 1), (Values(range(3)), 9))

    assert len(steps(blend, lane(), most=50)) == 6


@pytest.mark.parametrize(
    "arguments",
    [(), (Values([1]),), ((Values([1]), "x"),), ((),), ((Values([1]), Values([2])),), ((0.5, Values([1])),), (3,)],
)
def test_arguments_that_are_not_pairs_are_refused(arguments: Any) -> None:
    with pytest.raises(ConfigError, match="expected datasets with their weights"):
        BlendDataset(*arguments)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_an_invalid_weight_is_refused(weight: float) -> None:
    with pytest.raises(ConfigError, match="expected weights above 0"):
        BlendDataset((Values([1]), 1), (Values([2]), weight))


@pytest.mark.parametrize("weights", [(1e308, 1e308), (1e308, 5e-324), (1.0, 1e-308)])
def test_a_round_of_extreme_weights_is_finite(weights: tuple[float, float]) -> None:
    assert BlendDataset((Values([1, 2, 3]), weights[0]), (Values([4]), weights[1])).round_samples >= 0
    assert 4 <= samples_of_round([3, 4], weights) <= 1 << 62
    assert samples_of_round([3, 4], [2.0, 0.0]) == 3
