"""Golden values of the order, and measures of how well it shuffles."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from loader.order import BlendOrder, SourceOrder, SourceOrders, default_lanes, mix, permute, quantise_weights

# Changing any of these reorders every run in progress.
GOLDEN_WORDS = [16294208416658607535, 13608149317741381227, 13604808898340030615, 17027085370592858547]
GOLDEN_PERMUTATION = [6, 7, 3, 9, 8, 4, 5, 0, 1, 2, 11, 10, 959592950129, 731814622206, 176956255715]
GOLDEN_SAMPLES = [
    0,
    0,
    0,
    3,
    4000000,
    0,
    0,
    1,
    311,
    400000001,
    0,
    0,
    0,
    6,
    8000000,
    971,
    31,
    76,
    636,
    58,
    4,
    6,
    1,
    1,
    5,
    318,
    33,
    488,
    380,
    181,
]
GOLDEN_BLEND = [1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 15, 16, 17, 29, 18, 19, 20, 30, 31, 21]

SHOW = """
import numpy as np
from loader.order import BlendOrder, SourceOrder, SourceOrders, mix, permute
print([int(mix(0)), int(mix(1, 2)), *mix(3, np.arange(2)).tolist()])
print([*permute(np.arange(12), 12, mix(5)).tolist(), *permute(np.arange(3), 10**12, mix(6)).tolist()])
orders = SourceOrders([SourceOrder(samples=1000, slice_length=10, shuffle_buffer=50, seed=7),
                     SourceOrder(samples=9, slice_length=10, epochs_together=2, seed=8),
                     SourceOrder(samples=500, slice_length=10, epochs_together=-1, seed=9)], 4)
epoch, sample = orders.locate(np.repeat([0, 1, 2], 5), 1, np.tile([0, 1, 2, 777, 10**9], 3))
print([*epoch.tolist(), *sample.tolist()])
source, position = BlendOrder([30, 20, 1], lane=2, seed=3).locate(45, 55)
print([*source.tolist(), *position.tolist()])
"""


def test_the_order_is_the_same_in_another_process_and_on_another_day() -> None:
    lines = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [str(GOLDEN_WORDS), str(GOLDEN_PERMUTATION), str(GOLDEN_SAMPLES), str(GOLDEN_BLEND)]


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_keys_choose_evenly_among_all_permutations_of_a_few_elements(size: int) -> None:
    each = 200
    draws = each * math.factorial(size)
    keys = np.repeat(mix(size, np.arange(draws)), size)
    results = permute(np.tile(np.arange(size), draws), size, keys).reshape(draws, size)
    counts = Counter(map(tuple, results.tolist()))
    assert len(counts) == math.factorial(size)
    chi_square = sum((count - each) ** 2 / each for count in counts.values())
    freedom = math.factorial(size) - 1
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("size", [7, 16, 100, 200])
def test_where_two_neighbours_go_is_independent(size: int) -> None:
    draws = 40 * size * size
    keys = mix(size, np.arange(draws))
    first, second = (permute(np.full(draws, at), size, keys) for at in (0, 1))
    counts = np.bincount(first * size + second, minlength=size * size).reshape(size, size)
    others = counts[~np.eye(size, dtype=bool)]
    expected = draws / (size * (size - 1))
    freedom = size * (size - 1) - 1
    assert ((others - expected) ** 2 / expected).sum() < freedom + 6 * math.sqrt(2 * freedom)


def test_a_window_of_slices_mixes_as_far_as_a_shuffle_buffer_of_its_size() -> None:
    orders = SourceOrders([SourceOrder(samples=200_000, slice_length=100, shuffle_buffer=10_000)], 1)
    _, sample = orders.locate(np.zeros(200_000, np.int64), 0, np.arange(200_000))
    stay = np.mean(np.abs(np.diff(sample)) == 1)
    assert stay < 0.001  # of neighbours; by chance, 2 in 10,000
    halves = [np.mean(sample[start : start + 10_000] < 100_000) for start in range(0, 200_000, 10_000)]
    assert min(halves) > 0.3  # each window has slices from the whole source, 100 of them
    assert max(halves) < 0.7


def test_without_a_buffer_slices_interleave_and_samples_of_a_slice_keep_their_order() -> None:
    orders = SourceOrders([SourceOrder(samples=16_000, slice_length=100)], 1)
    _, sample = orders.locate(np.zeros(1600, np.int64), 0, np.arange(1600))
    assert len(set((sample[:16] // 100).tolist())) >= 16
    for number in set((sample // 100).tolist()):
        mine = sample[sample // 100 == number]
        # The lane's window may cut a slice in two; its halves then interleave.
        assert np.sum(np.diff(mine) < 0) <= len(mine) // 2


def test_slices_stay_long_in_a_large_source_and_shrink_in_a_small_one() -> None:
    def slices_of_a_lane(samples: int, length: int) -> int:
        orders = SourceOrders([SourceOrder(samples=samples, slice_length=100)], 4)
        _, sample = orders.locate(np.zeros(samples // 4, np.int64), 1, np.arange(samples // 4))
        return len(set((sample // length).tolist()))

    assert slices_of_a_lane(100_000, 100) == pytest.approx(250, abs=2)  # a quarter of the slices, whole
    assert slices_of_a_lane(64, 4) == pytest.approx(4, abs=1)
    assert slices_of_a_lane(8, 1) == 2


def test_the_order_of_a_billion_samples_needs_no_memory() -> None:
    orders = SourceOrders([SourceOrder(samples=10**9, slice_length=100, shuffle_buffer=10_000)], 64)
    epoch, sample = orders.locate(np.zeros(3, np.int64), 63, np.array([0, 15_624_999, 10**12]))
    assert epoch.tolist()[:2] == [0, 0]
    assert epoch[2] == 10**12 // 15_625_000
    assert ((sample >= 0) & (sample < 10**9)).all()


def test_a_blend_of_hundreds_of_billions_is_found_directly() -> None:
    counts = [6 * 10**10, 3 * 10**11, 1]
    source, position = BlendOrder(counts, lane=0, seed=0).locate(10**11, 10**11 + 1000)
    assert np.bincount(source, minlength=2)[0] == pytest.approx(1000 / 6, abs=40)  # two blocks are cut
    for number in (0, 1):
        mine = position[source == number]
        assert np.array_equal(np.diff(mine), np.ones(len(mine) - 1))
        assert mine[0] == pytest.approx(10**11 * counts[number] / sum(counts), abs=300)


@pytest.mark.parametrize(("position", "size"), [(0, 0), (3, 3), (-1, 3)])
def test_a_position_that_no_permutation_has_is_refused(position: int, size: int) -> None:
    with pytest.raises(ValueError, match=r"expected positions in \[0, size\)"):
        permute(np.array([position]), size, mix(0))


def test_lanes_are_chosen_for_growth_unless_they_hold_samples() -> None:
    assert [default_lanes(ranks, 4, has_buffers=False) for ranks in (1, 5, 32)] == [48, 240, 96]
    assert [default_lanes(ranks, workers, has_buffers=True) for ranks, workers in ((2, 4), (3, 0))] == [8, 3]


def test_an_empty_piece_of_a_blend_is_empty() -> None:
    assert [len(part) for part in BlendOrder([3], lane=0, seed=0).locate(2, 2)] == [0, 0]
    assert [len(part) for part in BlendOrder([0], lane=0, seed=0).locate(0, 5)] == [0, 0]


@pytest.mark.parametrize("weights", [[1, 0], [1, -1], [math.nan], [math.inf, 1]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="expected weights above 0"):
        quantise_weights(weights)


@pytest.mark.parametrize("counts", [[], [1, -1]])
def test_counts_that_are_none_are_refused(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="expected counts"):
        BlendOrder(counts, lane=0, seed=0)


def test_a_piece_of_a_blend_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 0 <= start <= stop"):
        BlendOrder([1], lane=0, seed=0).locate(5, 3)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_uneven_length_are_found_from_any_position_in_them(seed: int) -> None:
    blend = BlendOrder([9] * 40, lane=0, seed=seed)
    source, _ = blend.locate(0, blend.period)
    assert [int(blend.locate(at, at + 1)[0][0]) for at in range(blend.period)] == source.tolist()


def test_lanes_take_the_single_sample_of_a_rare_source_at_different_times() -> None:
    counts = [65_535, 1]
    blends = [BlendOrder(counts, lane=lane, seed=0) for lane in range(16)]
    times = [int(np.flatnonzero(blend.locate(0, blend.period)[0] == 1)[0]) // 256 for blend in blends]
    assert len(set(times)) >= 14  # of 256 blocks, 16 draws seldom share one
