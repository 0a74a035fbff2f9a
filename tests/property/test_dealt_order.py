"""Orders that are not shuffled: the lanes, taken in turn, give the sequence of one lane."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loader.order import DealtOrder, FinitePass, RepeatedOrder, SourceOrder

SOURCES = st.lists(st.integers(1, 70), min_size=1, max_size=3)


def stored(samples: list[int]) -> tuple[SourceOrder, ...]:
    return tuple(SourceOrder(samples=count, slice_length=count, epochs_together=None) for count in samples)


def rounds(order: DealtOrder, number: int) -> list[tuple[int, ...]]:
    """Return the samples of the first rounds of all lanes, in the order of their micro-batches."""
    lanes = [order.lane(lane) for lane in range(order.lanes)]
    found = []
    for start in range(0, number * order.chunk, order.chunk):
        for lane in lanes:
            length = start + order.chunk if lane.length is None else lane.length
            columns = lane.locate(min(start, length), min(start + order.chunk, length))
            found += list(zip(*(column.tolist() for column in columns), strict=True))
    return found


@given(SOURCES, st.integers(1, 9), st.integers(1, 12), st.integers(0, 5))
def test_the_micro_batches_of_an_endless_run_follow_the_sources(
    samples: list[int], lanes: int, chunk: int, seed: int
) -> None:
    inner = RepeatedOrder(stored(samples), tuple(map(float, samples)), 1, seed)
    order = DealtOrder(inner, lanes, chunk)
    expected = list(zip(*(column.tolist() for column in inner.lane(0).locate(0, 3 * lanes * chunk)), strict=True))
    assert order.batches is None
    assert rounds(order, 3) == expected
    for source, count in enumerate(samples):
        numbers = [epoch * count + number for place, epoch, number in expected if place == source]
        assert numbers == list(range(len(numbers)))


@given(SOURCES, st.sampled_from([0.5, 1.0, 2.5]), st.integers(1, 9), st.integers(1, 12))
def test_the_micro_batches_of_a_pass_follow_the_sources(
    samples: list[int], times: float, lanes: int, chunk: int
) -> None:
    inner = FinitePass(stored(samples), (times,) * len(samples), 1, 0)
    length = inner.lane(0).length or 0
    order = DealtOrder(inner, lanes, chunk)
    assert order.batches == -(-length // chunk)
    assert sum(order.lane(lane).length or 0 for lane in range(lanes)) == length
    expected = list(zip(*(column.tolist() for column in inner.lane(0).locate(0, length)), strict=True))
    assert rounds(order, length // (lanes * chunk) + 1) == expected


def test_no_position_locates_nothing_and_orders_of_several_lanes_are_refused() -> None:
    inner = RepeatedOrder(stored([5, 6]), (1.0, 2.0), 1, 0)
    assert [column.dtype for column in DealtOrder(inner, 3, 2).lane(1).locate(4, 4)] == [np.dtype(np.int64)] * 3
    with pytest.raises(ValueError, match="expected an order of 1 lane"):
        DealtOrder(RepeatedOrder(stored([5]), (1.0,), 2, 0), 3, 2)
