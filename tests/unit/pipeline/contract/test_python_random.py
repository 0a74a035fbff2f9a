"""Python's generator is put back exactly, by its memory where that is known to be all of it."""

from __future__ import annotations

import random

import pytest

from loader.pipeline.contract import python_random
from loader.pipeline.contract.python_random import generator_state, set_generator_state


def draw(generator) -> list[float]:
    return [generator.random(), generator.gauss(0, 1), generator.getrandbits(100), generator.randrange(7)]


@pytest.fixture(params=[True, False], ids=["by its memory", "by getstate"])
def is_copied(request, monkeypatch) -> bool:
    monkeypatch.setattr(python_random, "_IS_COPIED", request.param)
    return request.param


def test_this_interpreter_lets_the_memory_be_copied():
    assert python_random._IS_COPIED


@pytest.mark.parametrize("drawn_before", [0, 1, 2, 155, 156, 157, 1000])
def test_a_generator_goes_on_where_it_stood(is_copied, drawn_before):
    generator, other = random.Random(5), random.Random(5)
    for one in (generator, other):
        for _ in range(drawn_before):
            draw(one)
    kept = generator_state(generator)
    assert isinstance(kept[0], bytes) == is_copied
    for _ in range(700):
        draw(generator)
    generator.seed(8)
    set_generator_state(kept, generator)
    assert generator.getstate() == other.getstate()
    assert [draw(generator) for _ in range(400)] == [draw(other) for _ in range(400)]


def test_the_generator_of_the_module_is_meant_by_default(is_copied):
    random.seed(3)
    random.gauss(0, 1)
    expected, kept = random.getstate(), generator_state()
    random.seed(4)
    set_generator_state(kept)
    assert random.getstate() == expected


@pytest.mark.parametrize("size", [0, 8, 2496, 2500 - 64, 4096])
def test_memory_of_another_size_is_not_trusted(monkeypatch, size):
    monkeypatch.setattr(python_random, "_SIZE", size)
    assert not python_random._can_be_copied()


def test_memory_that_is_not_the_state_is_not_trusted(monkeypatch):
    monkeypatch.setattr(python_random, "generator_state", lambda generator: (bytes(python_random._SIZE), None))
    assert not python_random._can_be_copied()


def test_another_interpreter_is_not_trusted(monkeypatch):
    monkeypatch.setattr(python_random.sys.implementation, "name", "pypy")
    assert not python_random._can_be_copied()
