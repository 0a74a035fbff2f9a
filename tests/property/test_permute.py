"""Guarantees of ``permute``, for any length, seed and index."""

from __future__ import annotations

from collections import Counter
from math import factorial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from loader import permute, permute_array
from loader.order.index_permutation import epoch_seeds

MAX = 2**63 - 1
SEEDS = st.integers(0, 2**64 - 1)
LENGTHS = st.one_of(
    st.integers(1, 70),
    st.sampled_from([127, 128, 129, 509, 511, 512, 513, 1021, 1024, 2027]),
    st.integers(1, 3000),
)


@settings(max_examples=80)
@given(length=LENGTHS, seed=SEEDS)
def test_each_index_goes_to_a_place_of_its_own(length: int, seed: int) -> None:
    assert sorted(permute_array(np.arange(length), length, seed).tolist()) == list(range(length))


@given(length=st.one_of(LENGTHS, st.integers(1, MAX)), seed=SEEDS, data=st.data())
def test_one_index_goes_where_it_goes_among_others(length: int, seed: int, data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=30))
    assert permute_array(indices, length, seed).tolist() == [permute(index, length, seed) for index in indices]


@given(length=st.integers(2**62 - 1000, MAX), seed=SEEDS, data=st.data())
def test_the_longest_permutations_stay_within_their_length_and_take_nothing_together(
    length: int, seed: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, length - 100))
    moved = permute_array(np.arange(first, first + 100), length, seed)
    assert moved.min() >= 0
    assert moved.max() < length
    assert len(set(moved.tolist())) == 100


@given(seed=SEEDS, length=st.sampled_from([100, 1000]))
def test_neighbours_do_not_stay_neighbours(seed: int, length: int) -> None:
    steps = np.diff(permute_array(np.arange(length), length, seed))
    # In a random permutation, two pairs of neighbours stay neighbours on average, one in each direction.
    assert (np.abs(steps) == 1).sum() <= 14


@given(seed=st.integers(0, 2**64 - 2))
def test_seeds_that_are_neighbours_give_orders_that_have_little_in_common(seed: int) -> None:
    one, other = (permute_array(np.arange(1000), 1000, number) for number in (seed, seed + 1))
    assert (one == other).sum() <= 10  # 1 on average


def test_all_orders_of_a_few_samples_are_equally_likely() -> None:
    length, draws = 4, 12_000
    orders = permute_array(np.tile(np.arange(length), (draws, 1)), length, np.arange(draws)[:, None])
    counts = Counter(map(tuple, orders.tolist()))
    assert len(counts) == factorial(length)
    expected = draws / factorial(length)
    chi_squared = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_squared < 49.7  # p = 0.001 with 23 degrees of freedom


@pytest.mark.parametrize("length", [10, 97])
def test_an_index_goes_everywhere_equally_often(length: int) -> None:
    draws = 20_000
    for index in (0, length // 2, length - 1):
        places = permute_array(np.full(draws, index), length, np.arange(draws))
        expected = draws / length
        chi_squared = ((np.bincount(places, minlength=length) - expected) ** 2 / expected).sum()
        assert chi_squared < length - 1 + 4 * np.sqrt(2 * length)


TEN = [5, 4, 6, 8, 2, 1, 9, 3, 7, 0]
BILLION = 127555906
LARGEST = 3359262710826470154


def test_the_values_are_those_on_record() -> None:
    assert [permute(index, 10, 0) for index in range(10)] == TEN
    assert permute(123_456_789, 10**9, 42) == BILLION
    assert permute(MAX - 1, MAX, 2**64 - 1) == LARGEST
    assert permute(0, 1, 7) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 10, 0), r"expected index to be in \[0, 9\], found -1"),
        ((10, 10, 0), r"expected index to be in \[0, 9\], found 10"),
        ((0, 0, 0), r"expected length to be in \[1, 9223372036854775807\], found 0"),
        ((0, -3, 0), "expected length to be in"),
        ((0, 2**63, 0), "expected length to be in"),
        ((0, 10, -1), r"expected seed to be in \[0, 18446744073709551615\], found -1"),
        ((0, 10, 2**64), "expected seed to be in"),
        ((0.0, 10, 0), r"expected index to be an integer, found float 0\.0"),
        ((0, 10.0, 0), "expected length to be an integer"),
        ((0, 10, 1.5), "expected seed to be an integer"),
        ((True, 10, 0), "expected index to be an integer, found bool True"),
        ((0, np.True_, 0), "expected length to be an integer"),
        ((0, 10, None), "expected seed to be an integer, found NoneType None"),
        (("1", 10, 0), "expected index to be an integer, found str '1'"),
    ],
)
def test_arguments_that_name_no_permutation_are_refused(arguments: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        permute(*arguments)
    with pytest.raises(ValueError, match=message):
        permute_array(*arguments)


@pytest.mark.parametrize(
    ("index", "seed", "message"),
    [
        ([0, 1, -1], 0, "expected index to be in .* found -1"),
        ([0, 10], 0, "expected index to be in .* found 10"),
        ([0.0, 1.0], 0, "expected index to hold integers, found float64"),
        ([True, False], 0, "expected index to hold integers, found bool"),
        ([0, 1], [0, -1], "expected seed to be in .* found -1"),
        ([0, 1], [0.5, 1], "expected seed to hold integers"),
    ],
)
def test_one_wrong_element_of_an_array_is_named(
    index: list[bool | float], seed: int | list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        permute_array(index, 10, seed)


def test_integers_of_numpy_and_of_any_width_are_integers() -> None:
    wanted = permute(3, 10, 200)
    kinds: list[Any] = [np.int8, np.uint8, np.int32, np.uint64]
    integer: Any = np.int64
    byte: Any = np.uint8
    for kind in kinds:
        assert permute(kind(3), integer(10), byte(200)) == wanted
        assert permute_array(np.array([3], kind), 10, np.uint8(200)).tolist() == [wanted]
    assert type(permute(integer(3), 10, 200)) is int


def test_shapes_are_kept_and_seeds_broadcast() -> None:
    table = permute_array(np.tile(np.arange(7), (3, 1)), 7, np.array([[1], [2], [3]]))
    assert table.tolist() == [[permute(index, 7, seed) for index in range(7)] for seed in (1, 2, 3)]
    assert permute_array([], 7, 1).tolist() == []
    assert permute_array(4, 7, 1).tolist() == permute(4, 7, 1)


@given(seed=st.integers(0, 2**70), epochs=st.integers(0, 50))
def test_epochs_have_the_seeds_that_numpy_draws(seed: int, epochs: int) -> None:
    drawn = np.random.default_rng(seed).integers(0, np.iinfo(np.int32).max, size=epochs)
    found = epoch_seeds(seed, epochs)
    assert found.dtype == drawn.dtype
    assert found.tolist() == drawn.tolist()


def test_the_seeds_of_epochs_are_those_on_record() -> None:
    assert epoch_seeds(42, 3).tolist() == [191664963, 1662057957, 1405681631]
