"""EmptyPasses: how many passes without an item end a lane, and which of them end the run."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from loader.errors import RepeatedSampleError
from loader.pipeline.failures.error_handlers import reraise_exception
from loader.pipeline.failures.policy import FailurePolicy
from loader.pipeline.stages.repeat import EmptyPasses


def policy(**named: Any) -> FailurePolicy:
    return FailurePolicy(reraise_exception, lane=3, **named)


def passes(failures: FailurePolicy | None = None, **named: Any) -> EmptyPasses:
    return EmptyPasses(failures or policy(), lane=3, **named)


def empty_passes_until_the_end(empty: EmptyPasses, most: int = 200) -> int:
    for number in range(most):
        empty.note_end(number)
        if empty.are_final:
            return empty.count
    return most


@pytest.mark.parametrize("parts", [1, 5])
def test_a_worker_with_a_part_of_each_pass_waits_for_as_many_more(parts: int) -> None:
    assert empty_passes_until_the_end(passes(parts=parts)) == 20 * parts


@pytest.mark.parametrize(("joins", "expected"), [(False, 1), (True, 2)])
def test_equal_passes_end_at_once_unless_other_lanes_may_have_taken_the_first(joins: bool, expected: int) -> None:
    assert empty_passes_until_the_end(passes(is_same=True, joins=joins)) == expected


def test_equal_passes_that_drop_samples_are_tried_again() -> None:
    failures = policy()
    failures.dropped["a filter skipped"] = 1
    assert empty_passes_until_the_end(passes(failures, is_same=True)) == 20


def test_a_round_of_dropped_samples_in_each_pass_ends_a_lane_early() -> None:
    failures = policy(samples=10)
    empty = passes(failures, parts=5)
    empty.count, empty.last_kept = 0, 0
    failures.dropped["a filter skipped"] = 1000  # in the pass with an item: they do not count
    for number in range(21):
        empty.note_end(number)
    assert (empty.count, empty.are_final) == (20, False)
    failures.dropped["a filter skipped"] += 200
    assert empty.are_final


def test_an_item_begins_a_new_count() -> None:
    empty = passes()
    for number in range(19):
        empty.note_end(number)
    empty.count, empty.last_kept = 0, 19
    empty.note_end(19)
    assert (empty.count, empty.last_kept) == (0, 19)
    assert empty_passes_until_the_end(passes()) == 20


def test_the_items_of_other_lanes_of_the_worker_count() -> None:
    empty = passes(first=4, joins=True)
    empty.join(9, [])
    assert (empty.last_kept, empty.count) == (3, 6)
    empty.join(9, [5, 8])
    assert empty.count == 1
    assert passes(first=4, has_item=True).last_kept == 4


def test_a_lane_that_drops_no_sample_may_end() -> None:
    empty = passes()
    empty.note_end(0)
    empty.check_dropped()


def test_a_lane_that_drops_all_samples_ends_the_run() -> None:
    failures = policy()
    failures.dropped["a filter skipped"] = 40
    empty = passes(failures)
    empty.note_end(0)
    with pytest.raises(RepeatedSampleError, match="no item in lane 3 after 1 pass: a filter skipped: 40"):
        empty.check_dropped()


def test_tolerated_skips_end_the_lane_only() -> None:
    failures = policy(skip_tolerance=None)
    failures.dropped["a filter skipped"] = 40
    passes(failures).check_dropped()


def test_a_lane_that_never_has_a_sample_of_equal_passes_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    failures = policy()
    failures.remainder = "batch: 3 samples are fewer than a batch of 4"
    with caplog.at_level(logging.WARNING):
        passes(failures, is_same=True).check_dropped()
    assert "lane 3 has no sample of a pass that is repeated: batch: 3 samples" in caplog.text
    empty = passes(failures, is_same=True)
    empty.count, empty.last_kept = 0, 1
    with pytest.raises(RepeatedSampleError):
        empty.check_dropped()
