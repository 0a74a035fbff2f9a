"""Limits: the first micro-batches of an iteration or pass."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.pipeline.stages.limit import LimitDataset
from loader.testing.stage import Values, lane
from tests.unit.pipeline.rank_passes import Passes


def limited(length: int, source: Passes, count: int = 0, **options: Any) -> Any:
    return LimitDataset(Values(range(9)), length, **options).on_rank(source, count)


@pytest.mark.parametrize(
    ("of_pass", "expected"),
    [
        (2, [[0, 1], [0, 1], [0, 1], [0, 1]]),
        (6, [[0, 1, 2, 3], [4, 5], [0, 1, 2, 3], [4, 5]]),
        (8, [[0, 1, 2, 3], [4, 5, 6, 7], [], [0, 1, 2, 3]]),  # the pass was complete
    ],
)
def test_an_iteration_ends_with_its_limit_or_the_pass_and_the_next_continues(
    of_pass: int, expected: list[list[int]]
) -> None:
    running = limited(4, Passes(of_pass))
    assert [list(running.batches()) for _ in range(4)] == expected


@pytest.mark.parametrize("of_pass", [2, 4, 6])
def test_each_iteration_starts_over_with_reset_after_epoch(of_pass: int) -> None:
    source = Passes(of_pass)
    running = limited(4, source, reset_after_epoch=True)
    assert [list(running.batches()) for _ in range(3)] == [[*range(min(4, of_pass))]] * 3
    assert source.starts == 3


def test_a_limit_of_0_takes_and_yields_nothing() -> None:
    source = Passes(3)
    assert [list(limited(0, source).batches()) for _ in range(2)] == [[], []]
    assert source.asked == 0


def test_a_restored_iteration_is_completed() -> None:
    source = Passes(100)
    running = limited(4, source)
    assert list(islice(running.batches(), 3)) == [0, 1, 2]
    again = limited(4, source, running.count)
    assert [list(again.batches()) for _ in range(2)] == [[3], [4, 5, 6, 7]]


def test_an_interrupted_iteration_is_completed_by_the_next() -> None:
    running = limited(4, Passes(100))
    assert list(islice(running.batches(), 1)) == [0]
    assert [list(running.batches()) for _ in range(2)] == [[1, 2, 3], [4, 5, 6, 7]]


def test_starting_over_restarts_limit_and_pass() -> None:
    running = limited(4, Passes(10))
    assert list(islice(running.batches(), 3)) == [0, 1, 2]
    running.start_over()
    assert list(running.batches()) == [0, 1, 2, 3]


@pytest.mark.parametrize(("items", "repeats", "expected"), [(9, False, 4), (3, False, 3), (9, True, 4)])
def test_a_limit_determines_the_length(items: int, repeats: bool, expected: int) -> None:
    assert len(LimitDataset(Values(range(items), repeats=repeats), 4)) == expected


def test_a_limit_below_zero_is_refused_and_a_limit_cannot_be_opened_for_a_lane() -> None:
    with pytest.raises(ConfigError, match="at least 0 micro-batches, found -1"):
        LimitDataset(Values(range(9)), -1)
    dataset = LimitDataset(Values(range(9)), 4)
    assert str(dataset) == "limit(length=4)\n└─ values()"
    with pytest.raises(ConfigError, match="apply limit last"):
        dataset.open(lane(), {})
