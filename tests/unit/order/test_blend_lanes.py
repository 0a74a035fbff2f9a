"""Counts and positions of many lanes of a blend are those of each lane."""

from __future__ import annotations

import numpy as np
import pytest

from loader.order.blend import BlendOrder, count_in_lanes, locate_in_lanes, quantise_weights


@pytest.mark.parametrize(("sources", "lanes", "most"), [(2, 3, 10), (3, 5, 1000), (200, 48, 10**6), (2000, 7, 10**7)])
@pytest.mark.parametrize("seed", [0, 7, -3])
def test_counts_of_many_lanes_are_the_sum_of_each_lane(sources: int, lanes: int, most: int, seed: int) -> None:
    numbers = np.random.default_rng(seed + 5)
    counts = quantise_weights(numbers.integers(1, 9, sources).astype(float).tolist())
    for stops in (numbers.integers(0, most, lanes), np.full(lanes, most), np.zeros(lanes, np.int64)):
        each = [BlendOrder(counts, lane=lane, seed=seed).counts(int(stop)) for lane, stop in enumerate(stops)]
        assert count_in_lanes(counts, stops=stops, seed=seed).tolist() == np.sum(each, axis=0).tolist()


@pytest.mark.parametrize(("sources", "most"), [(2, 10), (3, 70_000), (200, 10**6), (2000, 10**12)])
@pytest.mark.parametrize("seed", [0, 7, -3])
def test_positions_of_many_lanes_are_those_of_each_lane(
    sources: int, most: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loader.order.blend._LOCATED", 7000)  # several groups of ranges
    numbers = np.random.default_rng(seed + 5)
    counts = quantise_weights(numbers.integers(1, 9, sources).astype(float).tolist())
    lane, start = numbers.integers(0, 50, 40), numbers.integers(0, most, 40)
    stop = start + numbers.choice([0, 1, 8, 300, 1500], 40)
    expected = [
        BlendOrder(counts, lane=number, seed=seed).locate(first, last)
        for number, first, last in zip(lane.tolist(), start.tolist(), stop.tolist(), strict=True)
    ]
    found = locate_in_lanes(counts, lane=lane, start=start, stop=stop, seed=seed)
    for column, parts in zip(found, zip(*expected, strict=True), strict=True):
        assert column.tolist() == np.concatenate(parts).tolist()
