"""Blending by volume: weights are shares of the sizes of items, which are counted."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from loader.errors import ConfigError, RepeatedSampleError, SkipSample
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.reading.planned_schedule import PlannedSchedule
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.blend import BlendDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.testing.stage import Values, check_resumes, lane, steps, values
from tests.unit.pipeline.stages.test_blend import (
    endless,
    negative,
    neighbours,
    no_multiple_of_three,
    twice,
)


def tokens(item: Any) -> int:
    """Return 1 to 10 for items below 100, 1000 for the others."""
    return 1000 if abs(item) >= 100 else 1 + abs(item) % 10


def volumes(items: list[int]) -> tuple[int, int]:
    return tuple(sum(tokens(item) for item in items if (item >= 100) == large) for large in (False, True))  # type: ignore[return-value]


def test_each_dataset_has_its_share_of_the_volume_at_every_step() -> None:
    blend: BlendDataset[Any] = BlendDataset((endless(0), 2), (endless(100), 1), size=tokens)
    items = values(blend, most=3000)
    for stop in range(1, len(items)):
        small, large = volumes(items[:stop])
        target = 2 / 3 * (small + large)
        assert -1000 * 5 / 3 <= small - target <= 10
    assert volumes(items)[1] > 3000


@pytest.mark.parametrize("lengths", [(40, 30), (7, 50), (0, 20), (60, 60)])
def test_a_restored_lane_continues_where_it_stopped(lengths: tuple[int, int]) -> None:
    blend: BlendDataset[Any] = BlendDataset(
        (Values(range(lengths[0])), 2), (Values(range(100, 100 + lengths[1]), skips=(2,)), 1), size=tokens
    )
    check_resumes(blend, count=2, most=100)


def test_a_restored_lane_continues_within_nested_chains() -> None:
    packed: PackingDataset[Any] = PackingDataset(MapDataset(Values(range(30)), twice), 6, neighbours, sum)
    filtered = FilterDataset(MapDataset(endless(0), twice), no_multiple_of_three)
    inner: BlendDataset[Any] = BlendDataset((packed, 0.2), (Values(range(100, 120)), 0.8), size=tokens)

    check_resumes(BlendDataset((inner, 3), (filtered, 1), (BatchDataset(endless(500), 2, sum), 1)), count=2, most=40)
    blend: BlendDataset[Any] = BlendDataset((inner, 3), (filtered, 1), size=abs)
    check_resumes(BatchDataset(MapDataset(blend, negative), 3, list), count=2, most=30)


def test_a_state_has_only_the_inputs_that_were_used() -> None:
    blend: BlendDataset[Any] = BlendDataset(*((endless(100 * number), 1) for number in range(50)), size=tokens)
    [*_, last] = steps(blend, lane(), most=8)
    assert last.state.count("values") == 7


def test_items_without_a_size_do_not_starve_the_others() -> None:
    blend: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 1), size=lambda item: item // 100)
    found = [item // 100 for item in _values(blend, most=200)]
    assert 50 < sum(found) < 150
    empty: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 3), size=lambda _: 0)
    found = [item // 100 for item in _values(empty, most=200)]
    assert sum(found) == pytest.approx(150, abs=2)


def test_skipped_items_count_nothing() -> None:
    skipping = Values(range(10), repeats=True, skips=range(0, 1000, 2))
    blend: BlendDataset[Any] = BlendDataset((skipping, 1), (endless(100), 1), size=lambda _: 1)
    found = [item >= 100 for item in _values(blend, most=600)]
    assert sum(found) / len(found) == pytest.approx(0.5, abs=0.02)
    everything = Values(range(10), repeats=True, skips=range(1000))
    found = [item >= 100 for item in _values(BlendDataset((everything, 1), (endless(100), 1), size=abs), most=60)]
    assert all(found)
    assert len(found) > 20


def _values(dataset: BlendDataset[Any], *, most: int) -> list[Any]:
    """Return the values of a lane of a blend whose function does not pickle."""
    running = dataset.open(lane(), {})
    found = [running.next()[0] for _ in range(most)]
    return [value for value in found if value is not SKIPPED]


def failing(item: int) -> int:
    if item % 5 == 0:
        raise ValueError(item)
    return 1


def skipping(item: int) -> int:
    if item % 5 == 0:
        raise SkipSample
    return 1


@pytest.mark.parametrize("size", [failing, skipping])
def test_an_item_whose_size_fails_is_skipped(size: Any) -> None:
    blend: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 1), size=size)
    items = values(blend, most=60)
    assert {item % 100 for item in items} == {1, 2, 3, 4, 6, 7, 8, 9}
    check_resumes(blend, most=30)


def test_a_metric_that_skips_every_item_ends_the_run() -> None:
    def skipping_all(_: int) -> int:
        raise SkipSample

    blend: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 1), size=skipping_all)
    one = lane()
    one.failures.skip_tolerance = 500
    running = blend.open(one, {})
    for _ in range(499):
        running.next()
    with pytest.raises(RepeatedSampleError, match="the metric 'skipping_all' has skipped 500 samples in a row"):
        running.next()
    assert one.failures.dropped == {"the metric 'skipping_all' skipped": 500}


@pytest.mark.parametrize("size", [-1, float("nan"), float("inf"), 1e300, "x", None])
def test_sizes_are_checked(size: Any) -> None:
    blend: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 1), size=lambda _: size, unit="tokens")
    expected = f"expected the metric 'tokens' to return a number from 0 to 1,000,000,000,000,000, found {size!r}"
    with pytest.raises(ConfigError, match=re.escape(expected)):
        blend.open(lane(), {}).next()


def test_the_unit_is_part_of_the_settings() -> None:
    blend: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 1), size=tokens)
    assert blend.settings() == {"weights": [1.0, 1.0], "unit": "tokens"}
    assert "unit" not in BlendDataset((endless(0), 1)).settings()


def test_volumes_count_from_the_last_change_of_the_mix_on() -> None:
    blend: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 1), size=tokens)
    running = blend.open(lane(), {})
    for _ in range(20):
        running.next()
    state = running.state()
    blend.edits = 1
    edited = blend.open(lane(), state)
    own = edited.state()[blend.key]
    assert own["total"] == 0
    assert own["volumes"] == []
    assert own["edits"] == 1
    assert own["0"] == state[blend.key]["0"]


def constant(size: Any, item: Any) -> Any:
    return size


@pytest.mark.parametrize("number", [np.array([3]), np.int64(3), np.float32(3), torch.tensor([3]), torch.tensor(3)])
def test_arrays_and_tensors_with_one_element_are_sizes(number: Any) -> None:
    blend: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 1), size=partial(constant, number))
    plain: BlendDataset[Any] = BlendDataset((endless(0), 1), (endless(100), 1), size=partial(constant, 3))
    assert values(blend, most=50) == values(plain, most=50)


@pytest.mark.parametrize("sizes", [np.array([3, 4]), torch.tensor([3, 4]), np.array([]), np.array(["a"])])
def test_arrays_and_tensors_with_other_contents_are_no_sizes(sizes: Any) -> None:
    blend: BlendDataset[Any] = BlendDataset((endless(0), 1), size=partial(constant, sizes), unit="tokens")
    with pytest.raises(ConfigError, match="expected the metric 'tokens' to return a number from 0 to"):
        values(blend, most=5)


def scheduled(*inputs: Any, starts: tuple[int, ...], weights: tuple[tuple[float, ...], ...]) -> BlendDataset[Any]:
    schedule = PlannedSchedule(unit="steps", starts=starts, weights=weights)
    return BlendDataset(*((one, 1) for one in inputs), schedule=schedule)


def test_weights_above_0_come_at_once_if_all_inputs_with_weight_have_ended() -> None:
    inputs = Values(range(4)), Values(range(100, 120)), Values(range(200, 203))
    blend = scheduled(*inputs, starts=(0, 6, 9, 30), weights=((1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1)))
    # The first input ends within its stretch; the last one has a weight when the second ends, after 24 items.
    assert values(blend) == [*range(4), *range(100, 120), *range(200, 203)]
    check_resumes(blend, most=40)


def test_a_lane_ends_if_what_is_left_has_no_weight_any_more() -> None:
    inputs = Values(range(100)), Values(range(100, 103))
    blend = scheduled(*inputs, starts=(0, 5), weights=((1, 0), (0, 1)))
    assert values(blend) == [*range(5), *range(100, 103)]
    check_resumes(blend, most=40)


def test_a_change_to_weights_of_ended_inputs_alone_continues_with_the_next_ones() -> None:
    inputs = Values(range(3)), Values(range(100, 110))
    blend = scheduled(*inputs, starts=(0, 8, 12), weights=((1, 1), (1, 0), (0, 1)))
    assert sorted(values(blend)) == [*range(3), *range(100, 110)]
    check_resumes(blend, most=40)


class RoundValues(Values):
    @property
    def round_samples(self) -> int:
        return len(self.values)


def test_the_samples_of_a_round_include_those_before_the_last_weights() -> None:
    inputs = (RoundValues(range(30), repeats=True), 1), (RoundValues(range(10), repeats=True), 1)
    schedule = PlannedSchedule(unit="steps", starts=(0, 50), weights=((0, 1), (1, 1)), batch_samples=4, ranks=2)
    assert BlendDataset(*inputs, schedule=schedule).round_samples == 50 * 4 * 2 + 60
    assert BlendDataset(*inputs).round_samples == 60


@pytest.mark.parametrize(
    ("starts", "weights", "message"),
    [
        ((0, 5), ((1, 1), (0, 0)), r"found \[0, 0\] from 5 steps on"),
        ((0,), ((1, -1),), r"found \[1, -1\] from 0 steps on"),
        ((0,), ((float("nan"), 1),), "found \\[nan, 1\\]"),
        ((0,), ((1, 1, 1),), "expected schedules of 2 datasets, found 3"),
        ((0, 5, 3), ((1, 1), (1, 1), (1, 1)), "expected starts that ascend from 0"),
        ((1,), ((1, 1),), "expected starts that ascend from 0"),
        ((0, 5), ((1, 1),), "expected weights of the same sources and a deal of at least 1 in stretches: 2"),
    ],
)
def test_schedules_without_weights_are_refused(
    starts: tuple[int, ...], weights: tuple[tuple[float, ...], ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        scheduled(Values([1]), Values([2]), starts=starts, weights=weights)
