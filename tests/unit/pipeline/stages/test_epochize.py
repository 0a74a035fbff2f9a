"""Virtual epochs: a fixed number of micro-batches, for any passes below."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.pipeline.stages.epochize import EpochizeDataset
from loader.testing.stage import Values, lane
from tests.unit.pipeline.rank_passes import Passes


def epochs(length: int, source: Passes, count: int = 0) -> Any:
    return EpochizeDataset(Values(range(9)), length).on_rank(source, count)


@pytest.mark.parametrize("of_pass", [1, 2, 3, 5, 6, 7, 10, 15])
def test_each_epoch_has_its_length_and_continues_after_the_last(of_pass: int) -> None:
    running = epochs(5, Passes(of_pass))

    found = [list(running.batches()) for _ in range(6)]

    assert [len(epoch) for epoch in found] == [5] * 6
    assert [batch for epoch in found for batch in epoch] == [number % of_pass for number in range(30)]


@pytest.mark.parametrize("of_pass", [2, 4, 5, 100])
@pytest.mark.parametrize("saved_after", range(1, 9))
@pytest.mark.sampled(3)
def test_a_restored_epoch_is_completed_and_a_complete_one_is_followed_by_the_next(
    saved_after: int, of_pass: int
) -> None:
    source = Passes(of_pass)
    running = epochs(4, source)
    left = saved_after
    while left:
        left -= len(list(islice(running.batches(), left)))

    assert running.count == (saved_after - 1) % 4 + 1
    first = list(epochs(4, source, running.count).batches())  # the source continues, as restored lanes do
    assert first == [(saved_after + number) % of_pass for number in range(-saved_after % 4 or 4)]


def test_an_epoch_without_data_ends() -> None:
    source = Passes(0)
    assert list(epochs(4, source).batches()) == []
    assert source.asked == 2


def test_starting_over_restarts_epoch_and_pass() -> None:
    source = Passes(10)
    running = epochs(4, source)
    assert list(islice(running.batches(), 3)) == [0, 1, 2]
    running.start_over()
    assert list(running.batches()) == [0, 1, 2, 3]
    assert source.starts == 1


@pytest.mark.parametrize("length", [0, -3])
def test_an_epoch_must_have_a_length(length: int) -> None:
    with pytest.raises(ConfigError, match=f"at least 1 micro-batch, found {length}"):
        EpochizeDataset(Values(range(9)), length)


def test_an_epoch_has_a_length_and_cannot_be_opened_for_a_lane() -> None:
    dataset = EpochizeDataset(Values(range(9), repeats=True), 4)
    assert len(dataset) == 4
    assert str(dataset) == "epochize(length=4)\n└─ values()"
    with pytest.raises(ConfigError, match="apply epochize last"):
        dataset.open(lane(), {})
