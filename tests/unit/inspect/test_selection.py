"""Selections of samples of one dataset, and of a mix."""

from __future__ import annotations

import pytest

from loader.inspect.shown_order import MixOrder, ShownOrder


@pytest.mark.parametrize("seed", [None, 0, 7])
def test_a_selection_gives_every_sample_once(seed: int | None) -> None:
    selection = ShownOrder([range(5), range(5, 5), range(100, 120)], seed=seed)
    expected = [*range(5), *range(100, 120)]
    assert sorted(selection[place] for place in range(len(selection))) == expected
    if seed is None:
        assert [selection[place] for place in range(len(selection))] == expected
    with pytest.raises(IndexError):
        selection[25]


def test_a_shuffled_selection_is_the_same_from_whatever_end_it_is_read() -> None:
    forward = ShownOrder([range(1000)], seed=3)
    backward = ShownOrder([range(1000)], seed=3)
    assert [forward[place] for place in range(1000)] == [backward[place] for place in reversed(range(1000))][::-1]


@pytest.mark.parametrize("seed", [None, 0, 5])
def test_an_order_gives_as_many_samples_as_there_are(seed: int | None) -> None:
    order = MixOrder([4, 100, 1], [4.0, 100.0, 1.0], seed=seed)
    drawn = [order[place] for place in range(len(order))]
    assert len(drawn) == 105
    assert all(0 <= index < (4, 100, 1)[which] for which, index in drawn)
    assert [order[place] for place in range(104, -1, -1)] == drawn[::-1]
    if seed is None:
        assert len(set(drawn)) == 105
    with pytest.raises(IndexError):
        order[105]
