from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import pytest

from loader import ConfigError, cyclic_iter


class Passes:
    """Iterable with different items in each pass."""

    def __init__(self, *passes: str) -> None:
        self.left = list(passes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.left.pop(0))


def test_nothing_of_a_pass_is_kept_for_the_next() -> None:
    assert list(islice(cyclic_iter(Passes("ab", "cd", "e")), 5)) == list("abcde")


def test_a_single_empty_pass_is_stepped_over() -> None:
    assert list(islice(cyclic_iter(Passes("", "ab", "", "c")), 3)) == list("abc")


def test_it_does_not_iterate_before_it_is_asked_for_an_item() -> None:
    passes = Passes("ab")
    cyclic_iter(passes)
    assert passes.left == ["ab"]


@pytest.mark.parametrize("given", [[], iter("ab")], ids=["empty", "an iterator"])
def test_two_empty_passes_raise(given: Iterable[str]) -> None:
    with pytest.raises(ConfigError, match="found two empty passes in a row"):
        list(cyclic_iter(given))
