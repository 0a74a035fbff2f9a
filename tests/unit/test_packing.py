"""Packers: each item once, no pack above its capacity, the packs of the papers, and bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loader import packing
from loader.errors import ConfigError
from loader.packing import PACKERS, balanced, karmarkar_karp

LENGTHS = st.lists(st.integers(0, 100), max_size=60)


def plain_fit(costs: list[int], capacity: int, *, fullest: bool) -> list[list[int]]:
    """Return the packs of the definition: each item is compared with all packs."""
    packs: list[list[int]] = []
    rooms: list[int] = []
    for item, cost in enumerate(costs):
        fits = [n for n, room in enumerate(rooms) if room >= cost]
        if fits:
            chosen = min(fits, key=lambda n: rooms[n]) if fullest else fits[0]
        else:
            chosen = len(packs)
            packs.append([])
            rooms.append(capacity)
        packs[chosen].append(item)
        rooms[chosen] -= cost
    return packs


def sums(costs: Any, packs: list[Any]) -> list[float]:
    return [float(np.asarray(costs, float)[pack].sum()) for pack in packs]


@pytest.mark.parametrize("name", PACKERS)
@given(costs=LENGTHS)
def test_each_item_is_in_one_pack_which_keeps_the_capacity(name: str, costs: list[int]) -> None:
    for scale in (1, 0.1):  # integers, and floats whose sums round
        packs = PACKERS[name](np.array(costs) * scale, 100 * scale)
        assert sorted(int(item) for pack in packs for item in pack) == [*range(len(costs))]
        assert all([*pack] == sorted(pack) and len(pack) for pack in packs)
        assert max(sums(costs, packs), default=0) <= 100 + 1e-6


@given(costs=LENGTHS)
def test_packs_are_those_of_the_definition(costs: list[int]) -> None:
    first = plain_fit(costs, 100, fullest=False)
    assert [pack.tolist() for pack in packing.first_fit(costs, 100)] == first
    # Of packs with equal room, any may be taken, so sizes of packs are compared.
    best = sorted(sum(costs[item] for item in pack) for pack in plain_fit(costs, 100, fullest=True))
    assert sorted(sums(costs, packing.best_fit(costs, 100))) == best


@pytest.mark.parametrize("name", PACKERS)
@given(costs=st.lists(st.integers(1, 100), min_size=1, max_size=60))
def test_decreasing_fits_keep_the_bound_of_johnson(name: str, costs: list[int]) -> None:
    fewest = max(math.ceil(sum(costs) / 100), sum(cost > 50 for cost in costs))
    assert (
        len(PACKERS[name](costs, 100)) <= 11 / 9 * fewest * 1.5 + 1
    )  # the bound is on the optimum, which may be above
    assert len(PACKERS[name](costs, 100)) <= 2 * sum(costs) / 100 + 1  # no two packs are half empty


def test_lengths_of_texts_fill_their_packs() -> None:
    lengths = np.clip(np.exp(np.random.default_rng(1).normal(5, 1, 100_000)), 16, 1024).astype(int)
    fewest = math.ceil(lengths.sum() / 8192)
    assert len(packing.best_fit(lengths, 8192)) <= 1.01 * fewest
    assert len(packing.best_fit_decreasing(lengths, 8192)) <= 1.001 * fewest


@pytest.mark.parametrize("name", PACKERS)
@given(costs=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 7)), max_size=40))
def test_all_of_several_costs_keep_their_capacities(name: str, costs: list[tuple[int, int]]) -> None:
    array = np.array(costs, float).reshape(-1, 2)
    packs = PACKERS[name](array, [100, 7])
    assert sorted(int(item) for pack in packs for item in pack) == [*range(len(costs))]
    assert all((array[pack].sum(axis=0) <= np.array([100, 7]) + 1e-6).all() for pack in packs)


@given(costs=LENGTHS, packs=st.integers(1, 9), equal_counts=st.booleans())
def test_items_are_divided_and_counts_are_equal_where_they_are_to_be(
    costs: list[int], packs: int, equal_counts: bool
) -> None:
    for divide in (balanced, karmarkar_karp):
        groups = divide(costs, packs, equal_counts=equal_counts)
        assert len(groups) == packs
        assert sorted(int(item) for pack in groups for item in pack) == [*range(len(costs))]
        if equal_counts:
            counts = [len(group) for group in groups]
            assert max(counts) - min(counts) <= 1


@given(costs=st.lists(st.integers(1, 100), min_size=1, max_size=60), packs=st.integers(1, 9))
def test_balanced_packs_keep_the_bound_of_graham(costs: list[int], packs: int) -> None:
    assert max(sums(costs, balanced(costs, packs))) <= sum(costs) / packs + max(costs)


def test_differences_level_few_items_better() -> None:
    costs = np.random.default_rng(2).integers(1, 1000, (200, 12))
    spreads = {
        divide: sum(np.ptp(sums(each, divide(each, 3))) for each in costs) for divide in (balanced, karmarkar_karp)
    }
    assert spreads[karmarkar_karp] < 0.5 * spreads[balanced]


def test_two_independent_costs_are_levelled() -> None:
    costs = np.exp(np.random.default_rng(3).normal(0, 1, (4096, 2)))
    loads = np.array([costs[pack].sum(axis=0) for pack in balanced(costs, 64, equal_counts=True)])
    assert (loads.max(axis=0) / loads.mean(axis=0)).max() < 1.05


@given(seed=st.integers(0, 99), packs=st.sampled_from([16, 40, 128]), count=st.integers(1, 9))
def test_items_of_two_costs_are_divided_once_and_evenly(seed: int, packs: int, count: int) -> None:
    costs = np.exp(np.random.default_rng(seed).normal(0, 1, (packs * count, 2)))
    groups = balanced(costs, packs, equal_counts=True)
    assert {len(group) for group in groups} == {count}
    assert sorted(np.concatenate(groups).tolist()) == [*range(packs * count)]


def test_a_limit_of_balanced_packs_is_kept_or_refused() -> None:
    assert [pack.tolist() for pack in balanced([6, 6, 4, 4], 2, capacity=10)] == [[0, 2], [1, 3]]
    with pytest.raises(ConfigError, match=r"item 2 of cost \[4.0\] fits in none of 2 packs"):
        balanced([6, 6, 4, 4], 2, capacity=9.5)


@pytest.mark.parametrize("divide", [*PACKERS.values(), balanced, karmarkar_karp])
def test_bad_costs_are_named(divide: Any) -> None:
    for wrong in (-1, math.nan, math.inf):
        with pytest.raises(ConfigError, match=r"expected costs of at least 0, found .* for item 1 \(2 of 4 items\)"):
            divide([1, wrong, 3, wrong], 5)
    with pytest.raises(ConfigError, match=r"shape \(n,\) or \(n, k\), found \(1, 1, 1\)"):
        divide([[[1]]], 5)


@pytest.mark.parametrize("pack", PACKERS.values())
def test_bad_capacities_are_named(pack: Any) -> None:
    for wrong in (0, -1, math.nan, [1, 2]):
        with pytest.raises(ConfigError, match="expected a capacity above 0 for each of 1 costs"):
            pack([1, 2], wrong)
    with pytest.raises(ConfigError, match=r"2 of 3 items above the capacity \[5.0\]: item 1 costs \[6.0\]"):
        pack([1, 6, 7], 5)


def test_bad_numbers_of_packs_are_named() -> None:
    for divide in (balanced, karmarkar_karp):
        with pytest.raises(ConfigError, match="expected at least 1 pack, found 0"):
            divide([1, 2], 0)
    with pytest.raises(ConfigError, match="expected one cost of each item, found 2"):
        karmarkar_karp([[1, 2]], 2)
