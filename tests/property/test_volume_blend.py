"""Blends by volume: each dataset stays near its share of the volume, whatever the sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings, strategies as st

from loader.order import VolumeBlend
from loader.order.volume_blend import LeafVolume

Sampler = Callable[[random.Random], float]

WEIGHTS = st.lists(st.floats(1e-6, 1e6) | st.just(1e-300), min_size=1, max_size=8)
SIZES = st.lists(st.one_of(st.integers(1, 50), st.floats(1e-3, 1e6)), min_size=1, max_size=60)


@dataclass
class Extremes:
    """The largest distances of a dataset from its target."""

    ahead: float = 0.0
    behind: float = 0.0
    largest: float = 0.0


def follow(weights: Sequence[float], size: Callable[[int, int], float], items: int, lane: int = 0) -> list[Extremes]:
    """Follow a blend with own sums, and return the extremes of each dataset over all steps."""
    blend = VolumeBlend(weights, lane=lane, seed=3)
    volumes, total, found = [0.0] * len(weights), 0.0, [Extremes() for _ in weights]
    shares = [weight / sum(weights) for weight in weights]
    for number in range(items):
        place = blend.choose()
        one = size(place, number)
        blend.count(place, one)
        volumes[place] += one
        total += one
        found[place].largest = max(found[place].largest, one)
        for each, volume, share in zip(found, volumes, shares, strict=True):
            each.ahead = max(each.ahead, volume - share * total)
            each.behind = max(each.behind, share * total - volume)
    return found


def check_bounds(weights: Sequence[float], found: Sequence[Extremes]) -> None:
    largest, together = max(one.largest for one in found), sum(one.largest for one in found)
    for weight, one in zip(weights, found, strict=True):
        share, rounding = weight / sum(weights), 1e-9 * (1 + together)
        assert one.ahead <= (1 - share) * one.largest + rounding
        assert one.behind <= largest + share * (largest + together - one.largest) + rounding


@given(weights=WEIGHTS, sizes=SIZES, lane=st.integers(0, 1000))
def test_each_dataset_keeps_the_documented_bounds_for_any_sizes(
    weights: list[float], sizes: list[float], lane: int
) -> None:
    check_bounds(weights, follow(weights, lambda _, number: sizes[number % len(sizes)], 200, lane))


@given(weights=WEIGHTS, sizes=st.lists(st.floats(1e-3, 1e6), min_size=8, max_size=8))
def test_the_bounds_hold_for_datasets_of_different_sizes(weights: list[float], sizes: list[float]) -> None:
    check_bounds(weights, follow(weights, lambda place, _: sizes[place], 300))


def heavy(draw: random.Random) -> float:
    return float(min(10**6, int(20 * draw.paretovariate(1.1))))


def small(draw: random.Random) -> float:
    return float(draw.randint(1, 40))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.sampled(2)
def test_the_bounds_hold_over_100_000_items_of_a_heavy_tail(seed: int) -> None:
    draw = random.Random(seed)
    weights = [5.0, 3.0, 1.0, 0.5, 0.1]
    samplers: list[Sampler] = [heavy, small, heavy, small, heavy]
    found = follow(weights, lambda place, _: samplers[place](draw), 100_000)
    check_bounds(weights, found)
    largest = max(one.largest for one in found)
    for weight, one in zip(weights, found, strict=True):  # far from the worst case
        assert one.behind <= 1.5 * (one.largest + weight / sum(weights) * largest)


@given(weights=WEIGHTS, sizes=SIZES, stops=st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_a_restored_blend_makes_the_same_choices(weights: list[float], sizes: list[float], stops: list[int]) -> None:
    one = VolumeBlend(weights, lane=5, seed=1)
    other, taken = VolumeBlend(weights, lane=5, seed=1), 0
    for stop in stops:
        for _ in range(stop):
            size = sizes[taken % len(sizes)] if taken % 3 else 0
            place = one.choose()
            assert other.choose() == place
            one.count(place, size)
            other.count(place, size)
            taken += 1
        volumes: dict[int, LeafVolume] = {
            place: other.volume(place) for place in range(len(weights)) if any(other.volume(place))
        }
        other.choose()  # a choice that is not counted has no effect
        other = VolumeBlend(weights, lane=5, seed=1, total=other.total, volumes=volumes)


@settings(max_examples=10)
@given(weights=WEIGHTS)
def test_empty_items_neither_hang_a_blend_nor_starve_a_dataset(weights: list[float]) -> None:
    blend = VolumeBlend([1.0, 1.0, 1.0], lane=0, seed=0)
    taken = [0, 0, 0]
    for _ in range(1000):
        place = blend.choose()
        taken[place] += 1
        blend.count(place, 0 if place == 2 or (place == 1 and taken[1] % 10) else 7)
    assert blend.volume(0)[1] == pytest.approx(blend.volume(1)[1], rel=0.2)
    assert blend.volume(2)[1] == 0
    assert taken[0] / 2 < taken[2] < 2 * taken[0]

    nothing = VolumeBlend(weights, lane=0, seed=0)
    for _ in range(50):
        nothing.count(nothing.choose(), 0)
    assert nothing.total == 0


def test_equal_sizes_come_in_other_orders_on_other_lanes() -> None:
    orders: list[list[int]] = []
    for lane in range(64):
        blend = VolumeBlend([5, 3, 2], lane=lane, seed=0)
        orders.append([])
        for _ in range(40):
            place = blend.choose()
            blend.count(place, 4096)
            orders[-1].append(place)
    for step in range(40):  # the step of 64 lanes has about the shares of the whole run
        of_step = [order[step] for order in orders]
        assert 64 * 0.5 - 20 < of_step.count(0) < 64 * 0.5 + 20
    assert len({tuple(order) for order in orders}) > 32


@settings(max_examples=20)
@given(lanes=st.integers(2, 16))
def test_the_bounds_of_lanes_add_up(lanes: int) -> None:
    weights = [3.0, 1.0]
    blends = [VolumeBlend(weights, lane=lane, seed=0) for lane in range(lanes)]
    draw = random.Random(lanes)
    for step in range(50 * lanes):
        blend = blends[step % lanes]
        place = blend.choose()
        blend.count(place, heavy(draw) if place else small(draw))
    total = sum(blend.total for blend in blends)
    behind = sum(blend.target(0) - blend.volume(0)[1] for blend in blends)
    assert behind == pytest.approx(0.75 * total - sum(blend.volume(0)[1] for blend in blends))


@pytest.mark.parametrize("weights", [[], [0.0], [-1.0, 1.0], [float("inf")], [float("nan"), 1.0]])
def test_weights_are_checked(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="expected weights above 0"):
        VolumeBlend(weights, lane=0, seed=0)
