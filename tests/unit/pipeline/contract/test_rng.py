"""Seed and restore the generators that user code draws from."""

# ruff: noqa: NPY002 - numpy's global generator is what user code draws from

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import mtrand

from loader.pipeline.contract import rng
from loader.pipeline.contract.hook import Hook
from loader.pipeline.contract.item_id import ItemId
from loader.pipeline.contract.rng import preserve_rng_state, seed_batch, seed_sample
from loader.samples.hook_marks import stateless
from loader.testing.stage import lane

REFS: list[ItemId] = [
    0,
    1,
    7,
    (7,),
    (7, 8),
    (8, 7),
    ((7, 8), 9),
    (7, (8, 9)),
    ("2 a", 0, 7),
    ("2 a", 1, 7),
    ("2 a", 7, 0),
]


def draw() -> tuple[Any, ...]:
    """Draw from each generator, also an odd number of normally distributed numbers, which are made two at a time."""
    return (
        random.random(),
        random.gauss(0, 1),
        np.random.random_sample(),
        np.random.standard_normal(),
        np.random.randint(1 << 30),
        torch.rand(2).tolist(),
        torch.randn(3).tolist(),
    )


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


# ----------------------------------------------------------------------------------------------------------- seeding


def test_random_numbers_depend_only_on_the_batch_or_sample() -> None:
    names = [partial(seed_batch, *name) for name in itertools.product((0, 1), (0, 1, 2), (0, 1, 2))]
    names += [partial(seed_sample, *name) for name in itertools.product((0, 1), (0, 3), REFS)]
    drawn = []
    for name in names:
        name()
        drawn.append(draw())
    for name, expected in reversed(list(zip(names, drawn, strict=True))):
        draw()
        name()
        assert draw() == expected
    for generator in range(7):
        assert len({str(one[generator]) for one in drawn}) == len(names)


@pytest.mark.parametrize("integer", [np.int64, np.int32, np.uint64])
def test_numpy_integers_seed_as_python_integers_do(integer: Any) -> None:
    for plain, numpys in (
        (partial(seed_batch, 5, 1, 2), partial(seed_batch, integer(5), integer(1), integer(2))),
        (partial(seed_sample, 5, 1, (7, 8)), partial(seed_sample, integer(5), integer(1), (integer(7), integer(8)))),
    ):
        plain()
        expected = draw()
        numpys()
        assert draw() == expected


def test_another_process_draws_the_same() -> None:
    code = "from tests.unit.pipeline.contract.test_rng import *; seed_sample(3, 5, ('2 a', 1, 7)); print(draw())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seed_sample(3, 5, ("2 a", 1, 7))
    assert done.stdout.strip() == str(draw())


# ----------------------------------------------------------------------------------------------------------- keeping


@pytest.mark.parametrize("drawn_before", [0, 1, 2])
def test_generators_continue_where_they_were_before(drawn_before: int) -> None:
    seed_all(1)
    expected = [draw() for _ in range(5)]
    seed_all(1)
    found = [draw() for _ in range(drawn_before)]
    with preserve_rng_state():
        seed_batch(1, 2, 3)
        draw()
        with preserve_rng_state():
            seed_sample(4, 5, 6)
            draw()
            np.random.standard_normal()
        draw()
    found += [draw() for _ in range(5 - drawn_before)]
    assert found == expected


WORDS_OF_A_BLOCK = 624


@pytest.mark.parametrize("blocks", [0, 1, 2])
@pytest.mark.parametrize("words", [-3, -2, -1, 0, 1, 2, 3, 300])
def test_pythons_generator_continues_at_each_place_of_its_blocks(blocks: int, words: int) -> None:
    count = max(0, blocks * WORDS_OF_A_BLOCK + words)
    expected = random.Random(5)
    expected.getrandbits(32 * count + 1)
    random.seed(5)
    random.getrandbits(32 * count + 1)
    preserved = preserve_rng_state()
    for drawn in (0, 1, 0, 0, 1, 623, 2, 0, 624, 1247, 0):
        for _ in range(drawn):
            assert random.getrandbits(32) == expected.getrandbits(32)
        with preserved:
            seed_batch(1, 2, drawn)
            random.random()
    assert [random.random() for _ in range(700)] == [expected.random() for _ in range(700)]


@pytest.mark.parametrize("drawn", [1, 2, 3])
def test_the_normal_number_that_python_caches_is_restored(drawn: int) -> None:
    expected = random.Random(5)
    random.seed(5)
    found, wanted = [], [expected.gauss(0, 1) for _ in range(8 * drawn)]
    preserved = preserve_rng_state()
    for _ in range(8):
        found += [random.gauss(0, 1) for _ in range(drawn)]
        with preserved:
            seed_batch(1, 2, 3)
            random.gauss(0, 1)
    assert found == wanted


def test_a_state_that_did_not_change_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(7)
    preserved = preserve_rng_state()
    with preserved:
        seed_batch(1, 2, 3)
    with monkeypatch.context() as patched:
        patched.delattr(random, "getstate")
        for number in range(3):
            with preserved:
                seed_batch(1, 2, number)
                draw()
    assert random.random() == random.Random(7).random()


def test_a_state_whose_next_word_is_that_of_another_one_is_restored() -> None:
    random.seed(7)
    preserved = preserve_rng_state()
    with preserved:
        seed_batch(1, 2, 3)
    preserved._python_state = preserved._python_state._replace(state=(3, (), None), rest=0)
    with preserved:
        seed_batch(1, 2, 3)
    assert random.random() == random.Random(7).random()


def test_a_state_of_another_form_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rng, "_STATE_VERSION", 4)
    random.seed(7)
    state = random.getstate()
    preserved = preserve_rng_state()
    for _ in range(2):
        with preserved:
            seed_batch(1, 2, 3)
        assert random.getstate() == state


def test_generators_inside_continue_after_an_inner_block() -> None:
    seed_batch(1, 2, 3)
    expected = [draw() for _ in range(4)]
    with preserve_rng_state():
        seed_batch(1, 2, 3)
        found = [draw()]
        for number in range(3):
            with preserve_rng_state():
                seed_sample(0, 0, number)
                draw()
            found.append(draw())
    assert found == expected


def test_generators_are_restored_after_an_error() -> None:
    seed_all(2)
    expected = draw()
    seed_all(2)

    def fail() -> None:
        with preserve_rng_state():
            seed_all(3)
            draw()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert draw() == expected


def test_another_numpy_bit_generator_is_restored() -> None:
    before = mtrand.get_bit_generator()
    mtrand.set_bit_generator(np.random.PCG64(5))
    try:
        expected = np.random.PCG64(5).random_raw()
        with preserve_rng_state():
            seed_sample(1, 2, 3)
            draw()
        assert isinstance(mtrand.get_bit_generator(), np.random.PCG64)
        assert mtrand.get_bit_generator().random_raw() == expected
    finally:
        mtrand.set_bit_generator(before)


def test_hooks_that_restore_seeds_do_not_move_the_generators() -> None:
    hook = Hook(stateless(restore_seeds=True)(lambda sample: draw()), lane())
    seed_all(4)
    expected = [(random.random(), np.random.random_sample(), torch.rand(1).item()) for _ in range(2)]
    seed_all(4)
    found = []
    for _ in range(2):
        found.append((random.random(), np.random.random_sample(), torch.rand(1).item()))
        hook.call(None, 5)
    assert found == expected


@pytest.mark.parametrize("separable", [True, False])
@pytest.mark.parametrize("drawn", [1, 2, 3])
def test_the_normal_number_that_numpy_caches_is_restored(
    monkeypatch: pytest.MonkeyPatch, separable: bool, drawn: int
) -> None:
    assert rng._is_separable()  # else a newer numpy makes each micro-batch 90 µs slower
    monkeypatch.setattr(rng, "_is_separable", lambda: separable)
    expected = np.random.RandomState(5).standard_normal(8).tolist()
    np.random.seed(5)
    found = np.random.standard_normal(drawn).tolist()
    for _ in range(2):
        with preserve_rng_state():
            np.random.seed(6)
            np.random.standard_normal(3)
    assert [*found, *np.random.standard_normal(8 - drawn).tolist()] == expected
