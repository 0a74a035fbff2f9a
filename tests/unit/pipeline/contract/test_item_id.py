"""Item ids: conversion to JSON and back, positions, and integers for random numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loader.pipeline.contract.item_id import as_item_id, integers_of, plain_item_id, position_of

positions = st.integers(0, 1 << 62)
item_ids = st.recursive(
    positions,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["1 decode", "2 encode_sample"]), st.integers(0, 9), inner),
        st.lists(inner, min_size=1, max_size=4).map(tuple),
    ),
    max_leaves=9,
)


@given(item_ids)
def test_an_item_id_survives_json(item_id: Any) -> None:
    assert as_item_id(json.loads(json.dumps(plain_item_id(item_id)))) == item_id
    hash(as_item_id(plain_item_id(item_id)))


# Compared ids are of one stage: samples, items of a generator, or joins of either.
of_generator = st.tuples(st.just("2 encode_sample"), st.integers(0, 9), positions)
kinds = (
    positions,
    of_generator,
    st.lists(positions, min_size=1, max_size=5).map(tuple),
    st.lists(of_generator, min_size=1, max_size=5).map(tuple),
    st.lists(st.lists(positions, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple),
)
of_one_stage = st.one_of([st.tuples(kind, kind) for kind in kinds])


@given(of_one_stage)
def test_two_items_of_a_stage_have_different_integers(two: Any) -> None:
    one, other = two
    assert (list(integers_of(one)) == list(integers_of(other))) == (one == other)


@pytest.mark.parametrize(
    ("item_id", "numbers"), [(7, [7]), ((7, 8), [2, 7, 8]), (("2 a", 1, 7), [3, 1, 7]), (((7, 8), 9), [2, 2, 7, 8, 9])]
)
def test_the_integers_of_an_item_never_change(item_id: Any, numbers: list[int]) -> None:
    """The random numbers of existing runs depend on these integers."""
    assert list(integers_of(item_id)) == numbers


@pytest.mark.parametrize(
    ("item_id", "position"),
    [
        (7, 7),
        (0, 0),
        ((), -1),
        ((7, 8), 7),
        (("2 a", 3, 7), 7),
        ((("2 a", 3, 7), 8), 7),
        (("4 pack", 0, (("2 a", 3, (9, 1)), 8)), 9),
        (((), 8), -1),
    ],
)
def test_the_position_of_an_item_is_that_of_its_first_sample(item_id: Any, position: int) -> None:
    assert position_of(item_id) == position
