"""Save and restore Python's global random generator by a copy of its memory."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

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


class Counting(random.Random):
    """A generator whose state is not that of its base class."""

    number = 0

    def random(self) -> float:
        self.number += 1
        return float(self.number)

    def getstate(self) -> tuple[Any, ...]:
        return (4, self.number)

    def setstate(self, state: Any) -> None:
        self.number = state[1]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    generator = Counting()
    for name in ("random", "getstate", "setstate"):
        monkeypatch.setattr(random, name, getattr(generator, name))
    yield generator
    monkeypatch.undo()


def test_the_generator_that_a_program_put_in_place_of_the_first_one_is_restored(counting: Counting) -> None:
    random.random()
    state = python_state()
    random.random()
    restore_python_state(state)
    assert (random.random(), counting.number) == (2.0, 2)


def test_a_generator_of_a_subclass_is_restored_by_its_methods(
    counting: Counting, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_random, "_getstate", random.getstate)
    monkeypatch.setattr(python_random, "_generator", counting)
    if way == "memory":
        uncached = python_random._global_memory.__wrapped__
        monkeypatch.setattr(python_random, "_global_memory", uncached)
    random.random()
    state = python_state()
    random.random()
    restore_python_state(state)
    assert (random.random(), counting.number) == (2.0, 2)
