"""Blends by volume whose weights change: each dataset stays near the sum of its shares, whatever the sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import accumulate

import pytest
from hypothesis import given, strategies as st

from loader.order import VolumeBlend, VolumeChange

WEIGHT = st.one_of(st.just(0.0), st.sampled_from([1.0, 1e-5, 3.0, 1e-300]), st.floats(0.01, 100))
SIZES = st.lists(st.one_of(st.integers(1, 50), st.floats(1e-3, 1e5)), min_size=1, max_size=60)


@st.composite
def stretches(draw: st.DrawFn) -> list[tuple[int, tuple[float, ...]]]:
    """Return the items of each stretch, and its weights."""
    sources = draw(st.integers(1, 6))
    row = st.tuples(*[WEIGHT] * sources).filter(any)
    return draw(st.lists(st.tuples(st.integers(0, 60), row), min_size=1, max_size=6))


def shares_of(weights: Sequence[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def check_bounds(plan: Sequence[tuple[int, Sequence[float]]], size: Callable[[int, int], float], lane: int) -> float:
    """Follow a blend with own sums, and check each step; return the largest distance behind a target, in own items."""
    count = len(plan[0][1])
    blend = VolumeBlend(plan[0][1], lane=lane, seed=3)
    volumes, targets, most, share_so_far, behind = ([0.0] * count for _ in range(5))
    number, lacked = 0, 0.0
    for row, (items, weights) in enumerate(plan):
        shares = shares_of(weights)
        share_so_far = list(map(max, share_so_far, shares))
        if row:
            blend.change(weights)
        lack = sum(target - own for target, own, share in zip(targets, volumes, shares, strict=True) if not share)
        lacked = max(lacked, lack)
        for _ in range(items):
            place = blend.choose()
            assert weights[place], "a dataset of weight 0 has an item"
            one = size(place, number)
            blend.count(place, one)
            number += 1
            volumes[place] += one
            most[place] = max(most[place], one)
            targets = [target + share * one for target, share in zip(targets, shares, strict=True)]
            together, largest = sum(most), max(most)
            rounding = 1e-9 * (1 + sum(volumes))
            for each, (own, target, maximum, share) in enumerate(
                zip(volumes, targets, most, share_so_far, strict=True)
            ):
                assert abs(blend.target(each) - target) <= rounding
                assert own - target <= maximum + share * lacked + rounding
                assert target - own <= largest + maximum + share * (largest + together) + rounding
                behind[each] = max(behind[each], target - own)
    units = [own + share * max(most) for own, share in zip(most, share_so_far, strict=True)]
    return max((far / unit for far, unit in zip(behind, units, strict=True) if unit), default=0.0)


@given(plan=stretches(), sizes=SIZES, lane=st.integers(0, 1000))
def test_each_dataset_keeps_the_documented_bounds_for_any_sizes_and_changes(
    plan: list[tuple[int, tuple[float, ...]]], sizes: list[float], lane: int
) -> None:
    check_bounds(plan, lambda _, number: sizes[number % len(sizes)], lane)


@given(plan=stretches(), sizes=st.lists(st.floats(1e-3, 1e5), min_size=6, max_size=6))
def test_the_bounds_hold_for_datasets_of_different_sizes(
    plan: list[tuple[int, tuple[float, ...]]], sizes: list[float]
) -> None:
    check_bounds(plan, lambda place, _: sizes[place], 0)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.sampled(2)
def test_the_bounds_hold_over_100_000_items_of_a_heavy_tail(seed: int) -> None:
    draw = random.Random(seed)
    plan = [(10_000, [draw.choice([0.1, 1.0, 5.0]) for _ in range(5)]) for _ in range(10)]
    heavy = [True, False, True, False, True]

    def size(place: int, _: int) -> float:
        return float(min(10**6, int(20 * draw.paretovariate(1.1))) if heavy[place] else draw.randint(1, 40))

    assert check_bounds(plan, size, 0) < 1.5  # far from the worst case


@given(plan=stretches(), sizes=SIZES, stop=st.integers(0, 300))
def test_a_restored_blend_makes_the_same_choices_after_any_change(
    plan: list[tuple[int, tuple[float, ...]]], sizes: list[float], stop: int
) -> None:
    one = VolumeBlend(plan[0][1], lane=5, seed=1)
    other = VolumeBlend(plan[0][1], lane=5, seed=1)
    ends = list(accumulate(items for items, _ in plan))
    for (items, weights), end in zip(plan, ends, strict=True):
        one.change(weights)
        other.change(weights)
        for number in range(end - items, end):
            size = sizes[number % len(sizes)] if number % 3 else 0
            place = one.choose()
            assert other.choose() == place
            one.count(place, size)
            other.count(place, size)
            if number >= stop:
                found = {place: other.volume(place) for place in range(len(weights)) if any(other.volume(place))}
                changed = other.changed
                if changed is not None:
                    changed = VolumeChange(changed.total, changed.items, dict(changed.targets))
                other = VolumeBlend(weights, lane=5, seed=1, total=other.total, volumes=found, changed=changed)


def test_a_change_before_the_first_item_is_no_change() -> None:
    changed = VolumeBlend([0.0, 1.0, 1.0], lane=2, seed=0)
    changed.change([5, 3, 2])
    assert changed.changed is None
    fresh = VolumeBlend([5, 3, 2], lane=2, seed=0)
    for _ in range(50):
        place = fresh.choose()
        assert changed.choose() == place
        fresh.count(place, 9)
        changed.count(place, 9)


def test_what_a_dataset_without_weight_lacks_the_others_have_and_return() -> None:
    blend = VolumeBlend([1.0, 1.0, 1.0], lane=0, seed=0)
    large = 0
    while blend.volume(large)[1] < 1000:  # a single item of another dataset puts the third far behind
        place = blend.choose()
        blend.count(place, 3000 if place == large else 1)
    blend.change([1.0, 1.0, 0.0])
    lack = blend.target(2) - blend.volume(2)[1]
    assert lack > 900
    for _ in range(9000):
        place = blend.choose()
        assert place != 2
        blend.count(place, 1)
    assert sum(blend.volume(place)[1] - blend.target(place) for place in range(2)) == pytest.approx(lack)
    blend.change([1.0, 1.0, 1.0])
    for _ in range(9000):
        blend.count(blend.choose(), 1)
    assert all(abs(blend.volume(place)[1] - blend.target(place)) < 2 for place in range(3))


def test_weights_are_checked_at_a_change() -> None:
    blend = VolumeBlend([1.0, 0.0], lane=0, seed=0)
    for weights in ([0.0, 0.0], [-1.0, 1.0], [float("nan"), 1.0]):
        with pytest.raises(ValueError, match="expected weights above 0"):
            blend.change(weights)
