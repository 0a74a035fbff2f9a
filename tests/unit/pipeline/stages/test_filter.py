"""Filtering, which keeps the positions of items."""

from __future__ import annotations

from typing import Any

import pytest

from loader.errors import SkipSample
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.testing.stage import Values, check_resumes, lane, steps, values


def is_odd(sample: Any) -> Any:
    return sample % 2


def is_odd_and_complains(sample: int) -> bool:
    if sample == 3:
        raise SkipSample
    if sample == 5:
        raise ValueError("a five")
    return sample % 2 == 1


def test_items_for_which_the_function_is_false_are_skipped_at_their_positions() -> None:
    given = steps(FilterDataset(Values(range(5), skips=(1,)), is_odd), lane(), most=9)

    assert [(step.value, step.item_id) for step in given] == [
        (SKIPPED, 0),
        (SKIPPED, 1),
        (SKIPPED, 2),
        (3, 3),
        (SKIPPED, 4),
    ]


def test_a_function_may_skip_or_fail_instead() -> None:
    assert values(FilterDataset(Values(range(9)), filter_fn=is_odd_and_complains)) == [1, 7]


@pytest.mark.parametrize("size", [1, 3])
def test_a_restored_lane_continues_where_it_stopped(size: int) -> None:
    kept = FilterDataset(Values(range(40), skips=(1, 7)), is_odd_and_complains)

    check_resumes(kept, count=3)
    check_resumes(BatchDataset(kept, size, list), count=3)


def test_the_number_of_items_is_not_known_and_the_length_nominal() -> None:
    kept = FilterDataset(Values(range(40)), is_odd)

    assert kept.items is None
    assert len(kept) == 40
