"""Check saved values against the schemas of stages."""

from __future__ import annotations

from typing import Any

import pytest

from loader.pipeline.contract.state_schema import (
    BUFFERED_ITEM,
    COUNT,
    FLAG,
    ITEM_ID,
    PLAIN,
    Count,
    NotRequired,
    Nullable,
    Schema,
    check_value,
)

VALID: list[tuple[Schema, Any]] = [
    (COUNT, 0),
    (COUNT, 2**53 - 1),
    (Count(3), 2),
    (FLAG, True),
    (ITEM_ID, 7),
    (ITEM_ID, [["2 encode_sample", 0, 7], (8, [])]),
    (ITEM_ID, ["2 Made", 0, -1, "own"]),  # of no sample
    (PLAIN, {"a": [1, None, "x", {"b": False}]}),
    (Nullable(COUNT), None),
    (Nullable(COUNT), 4),
    ([COUNT], []),
    ([COUNT], (1, 2)),
    (BUFFERED_ITEM, [[7, 8], None]),
    ({"next": COUNT, "ended": NotRequired([COUNT])}, {"next": 0}),
    ({"next": COUNT}, {"next": 0, "of a later version": [1]}),
    ({"0": {"0 read": COUNT}}, {"0": {"0 read": 5}}),
]

DAMAGED: list[tuple[Schema, Any, str]] = [
    (COUNT, -1, r"'x' to be an integer in \[0, 9007199254740992\), found -1"),
    (COUNT, 2**53, "'x' to be an integer"),
    (COUNT, True, "'x' to be an integer"),
    (COUNT, 1.0, "'x' to be an integer"),
    (COUNT, None, "'x' to be an integer"),
    (Count(3), 3, r"\[0, 3\), found 3"),
    (FLAG, 1, "'x' to be a bool, found 1"),
    (ITEM_ID, None, "'x' to hold integers"),
    (ITEM_ID, {"a": 1}, "'x' to hold integers"),
    (ITEM_ID, [7, [8, -2]], "found -2"),
    (PLAIN, {"a": [1, {"b": 0.5}]}, "found 0.5"),
    (Nullable(COUNT), "3", "'x' to be an integer"),
    ([COUNT], 3, "'x' to be a list, found 3"),
    ([COUNT], [1, "2"], "found '2'"),
    (BUFFERED_ITEM, [7], "'x' to be a list of 2 values"),
    ({"next": COUNT}, [], "'x' to be a dict"),
    ({"next": COUNT}, {}, "'x' to have the key 'next'"),
    ({"next": NotRequired(COUNT)}, {"next": None}, "'next' to be an integer"),
    ({"next": COUNT}, {"next": 0, "other": b""}, "'other' to hold integers"),
    ({"0": {"0 read": COUNT}}, {"0": {"0 read": -5}}, "'0 read' to be an integer"),
]


@pytest.mark.parametrize(("schema", "value"), VALID, ids=repr)
def test_values_of_the_schema_are_accepted(schema: Schema, value: Any) -> None:
    check_value(value, schema, "x")


@pytest.mark.parametrize(("schema", "value", "message"), DAMAGED, ids=repr)
def test_other_values_are_refused(schema: Schema, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_value(value, schema, "x")
