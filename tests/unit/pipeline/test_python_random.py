"""Save and restore Python's global random generator by a copy of its memory."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest

from loader.pipeline import python_random
from loader.pipeline.python_random import python_state, restore_python_state


@pytest.fixture(params=["memory", "getstate"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "getstate":
        monkeypatch.setattr(python_random, "_global_memory", lambda: None)
    before = random.getstate()
    yield request.param
    random.setstate(before)


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="another Python may store the state in another way")
def test_the_memory_of_this_python_is_known(way: str) -> None:
    if way == "memory":
        assert python_random._global_memory() is not None  # else each micro-batch takes 13 µs more


@pytest.mark.parametrize("drawn", [0, 1, 311, 623, 624, 625, 2000])
def test_a_restored_generator_continues_where_it_was(drawn: int) -> None:
    random.seed(5)
    for _ in range(drawn):
        random.random()
    expected_state = random.getstate()
    state = python_state()
    expected = [random.random() for _ in range(700)]
    random.seed(6)
    random.gauss(0, 1)
    restore_python_state(state)
    assert random.getstate() == expected_state
    assert [random.random() for _ in range(700)] == expected


@pytest.mark.parametrize("drawn", [1, 2])
def test_the_second_number_of_a_normal_pair_is_restored(drawn: int) -> None:
    random.seed(7)
    for _ in range(drawn):
        random.gauss(0, 1)
    state = python_state()
    expected = [random.gauss(0, 1) for _ in range(3)]
    random.gauss(0, 1)
    restore_python_state(state)
    assert [random.gauss(0, 1) for _ in range(3)] == expected


def test_a_saved_state_does_not_follow_the_generator() -> None:
    random.seed(8)
    first = python_state()
    expected = random.random()
    second = python_state()
    random.seed(9)
    for state in (second, first):
        restore_python_state(state)
    assert random.random() == expected
