"""The shuffle buffer for chains composed by hand."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.shuffle_buffer import ShuffleBufferDataset
from loader.samples.hook_marks import stateless
from loader.samples.hooks import hook_context
from loader.testing.stage import Values, check_resumes, lane, steps, values


@stateless(restore_seeds=True)
def with_random(item: int) -> tuple[int, float]:
    return item, random.random()


def with_context(item: Any) -> Any:
    return item, hook_context().batch_index, hook_context().sample_index


def test_every_item_comes_once_in_another_order() -> None:
    items = values(ShuffleBufferDataset(Values(range(500)), 50), most=600)

    assert sorted(items) == list(range(500))
    assert sum(abs(item - place) for place, item in enumerate(items)) / 500 > 25
    assert sum(after == item + 1 for item, after in pairwise(items)) < 30


def test_an_item_may_be_late_by_any_distance_but_is_early_by_less_than_the_buffer() -> None:
    items = values(ShuffleBufferDataset(Values(range(300)), 20), most=400)

    assert all(item - place < 20 for place, item in enumerate(items))
    assert any(place - item > 20 for place, item in enumerate(items))


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_restored_lane_continues_where_it_stopped(size: int) -> None:
    source = Values(range(45), skips=(2, 9))

    check_resumes(ShuffleBufferDataset(MapDataset(source, with_random), size), count=2)
    check_resumes(ShuffleBufferDataset(ShuffleBufferDataset(source, 4), size))


def test_rebuilt_samples_see_their_first_batch_and_sample_index() -> None:
    buffer = ShuffleBufferDataset(MapDataset(Values(range(20), repeats=True), with_context), 8)

    check_resumes(buffer, count=2, most=20, loads=False)


def test_a_buffer_of_one_shuffles_nothing() -> None:
    assert values(ShuffleBufferDataset(Values(range(9)), 1)) == list(range(9))


def test_lanes_and_stages_draw_different_random_numbers() -> None:
    one = ShuffleBufferDataset(Values(["x"] * 400), 10)
    item_ids = [[step.item_id for step in steps(one, lane(number, 4), most=100)] for number in range(4)]
    two = [
        step.item_id for step in steps(ShuffleBufferDataset(MapDataset(Values(["x"] * 100), str), 10), lane(), most=100)
    ]

    assert len({tuple(each) for each in [*item_ids, two]}) == 5


def test_the_order_is_the_same_on_another_day() -> None:
    assert values(ShuffleBufferDataset(Values(range(12)), 6)) == [1, 2, 6, 5, 8, 7, 3, 4, 11, 9, 10, 0]


def test_a_state_has_no_items() -> None:
    state = steps(ShuffleBufferDataset(Values(["a sample"] * 9), 4), lane(), most=2)[1].state

    assert json.loads(state) == {
        "0 values": 4,
        "1 ShuffleBufferDataset": {"picked": 1, "buffer": [[0, 0], [3, 0], [2, 0]]},
    }


def test_a_buffer_of_size_0_is_refused() -> None:
    with pytest.raises(ConfigError, match="size of at least 1"):
        ShuffleBufferDataset(Values([]), 0)
