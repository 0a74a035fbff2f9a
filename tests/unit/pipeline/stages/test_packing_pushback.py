"""Packing with samples that return to the buffer: which groups come, and exact resume."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from loader import PackedSamplesOutput
from loader.errors import ConfigError
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.samples.hook_marks import stateless
from loader.samples.hooks import hook_context
from loader.testing.stage import Values, check_resumes, lane, steps, values


def first_three(samples: list[Any]) -> PackedSamplesOutput[Any]:
    return PackedSamplesOutput([samples[:3]], pushback=samples[3:])


def pairs_of_equal_parity(samples: list[int]) -> PackedSamplesOutput[int]:
    odd, even = ([one for one in samples if one % 2 == rest] for rest in (1, 0))
    groups = [same[at : at + 2] for same in (odd, even) for at in range(0, len(same) - 1, 2)]
    return PackedSamplesOutput(groups, pushback=(one for one in samples if not any(one in group for group in groups)))


def longest_with_rest(samples: list[Any]) -> PackedSamplesOutput[Any]:
    return PackedSamplesOutput([[samples[0]], [samples[0], samples[-1]]], pushback=samples[1:-1][:2])


def everything_back(samples: list[Any]) -> PackedSamplesOutput[Any]:
    return PackedSamplesOutput([], samples)


@stateless(restore_seeds=True)
def with_random(sample: int) -> tuple[int, float]:
    return sample, random.random()


def with_batch(sample: int) -> tuple[int, int | None]:
    return sample, hook_context().batch_index


def test_pushed_back_samples_come_first_in_the_next_buffer() -> None:
    assert values(PackingDataset(Values(range(11)), 5, first_three, list)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]


def test_each_sample_of_a_pass_is_packed_once() -> None:
    found = values(PackingDataset(Values([1, 3, 5, 2, 7, 9, 4, 11]), 3, pairs_of_equal_parity, list))
    assert found == [[1, 3], [5, 7], [2, 4], [9, 11]]


def test_samples_that_no_selection_takes_are_dropped_at_the_end_of_a_pass() -> None:
    assert values(PackingDataset(Values([1, 3, 2]), 3, pairs_of_equal_parity, list)) == [[1, 3]]


def test_a_full_buffer_must_lose_a_sample() -> None:
    packed: PackingDataset[Any] = PackingDataset(Values(range(9)), 3, everything_back, list)
    with pytest.raises(ConfigError, match="pushed all 3 samples of a full buffer back"):
        steps(packed, lane(), most=1)


@pytest.mark.parametrize("select", [first_three, pairs_of_equal_parity, longest_with_rest])
@pytest.mark.parametrize("skips", [(), (3, 4, 11)])
def test_a_restored_lane_continues_where_it_stopped(select: Callable[..., Any], skips: tuple[int, ...]) -> None:
    check_resumes(PackingDataset(Values(range(40), skips=skips), 7, select, list), count=3)


def test_a_restored_lane_rebuilds_pushed_back_samples_in_their_batch_and_with_their_random_numbers() -> None:
    encoded = MapDataset(MapDataset(Values(range(40), repeats=True), with_random), with_batch)
    packed: PackingDataset[Any] = PackingDataset(encoded, 7, first_three, list)
    check_resumes(packed, count=2, most=20, loads=False)
    check_resumes(BatchDataset(packed, 2, list), count=2, most=20, loads=False)


def test_a_state_has_pushed_back_samples_only_while_there_are_some() -> None:
    packed: PackingDataset[Any] = PackingDataset(Values(range(10)), 4, pairs_of_equal_parity, list)
    name = "1 select_samples_to_pack"
    states = [json.loads(step.state).get(name) for step in steps(packed, lane(), most=5)]
    assert states[0] is None
    assert states[1] == {"batch": 0, "groups": [[0, 2]]}
    packed = PackingDataset(Values(range(10)), 4, first_three, list)
    states = [json.loads(step.state).get(name) for step in steps(packed, lane(), most=5)]
    assert states[:2] == [None, {"batch": 0, "groups": [], "pushback": [[3, 0]]}]
