"""Convert saved values to the types of stages."""

from __future__ import annotations

from typing import Any, NotRequired

import pytest

from loader.errors import StateError
from loader.pipeline.contract.state_schema import (
    BUFFERED_ITEM,
    COUNT,
    ITEM_ID,
    NUMBER,
    Schema,
    converted,
    count_below,
    saved_dict,
)

VALID: list[tuple[Schema, Any]] = [
    (COUNT, 0),
    (COUNT, 2**53 - 1),
    (count_below(3), 2),
    (NUMBER, 0.5),
    (NUMBER, 3),
    (bool, True),
    (ITEM_ID, 7),
    (ITEM_ID, [["2 encode_sample", 0, 7], (8, [])]),
    (ITEM_ID, ["2 Made", 0, -1, "own"]),  # of no sample
    (COUNT | None, None),
    (COUNT | None, 4),
    (list[COUNT], []),
    (list[COUNT], (1, 2)),
    (BUFFERED_ITEM, [[7, 8], None]),
    (saved_dict(next=COUNT, ended=NotRequired[list[COUNT]]), {"next": 0}),
    (saved_dict(next=COUNT), {"next": 0, "of a later version": [1], "of a user": {7: b""}}),
    (saved_dict(**{"0": saved_dict(**{"0 read": COUNT})}), {"0": {"0 read": 5}}),
]

DAMAGED: list[tuple[Schema, Any, str]] = [
    (COUNT, -1, "x: expected an integer >= 0, found -1"),
    (COUNT, 2**53, "x: expected an integer <= 9007199254740991, found 9007199254740992"),
    (COUNT, 2**70, "x: expected an integer <= 9007199254740991"),
    (COUNT, True, "x: expected an integer, found True"),
    (COUNT, 1.0, "x: expected an integer, found 1.0"),
    (COUNT, None, "x: expected an integer, found None"),
    (COUNT, b"", "x: expected an integer, found b''"),
    (count_below(3), 3, "x: expected an integer <= 2, found 3"),
    (NUMBER, float("nan"), "x: expected a number >= 0.0, found nan"),
    (NUMBER, float("inf"), "x: expected a number <= 1.79"),
    (NUMBER, -0.5, "x: expected a number >= 0.0, found -0.5"),
    (NUMBER, True, "x: expected an integer or a number, found True"),
    (bool, 1, "x: expected a bool, found 1"),
    (ITEM_ID, None, "x: expected an item id, found None"),
    (ITEM_ID, {"a": 1}, "x: expected an item id, found"),
    (ITEM_ID, [7, [8, -2]], r"x: expected an item id, found \[7, \[8, -2\]\]"),
    (COUNT | None, "3", "x: expected an integer or None, found '3'"),
    (list[COUNT], 3, "x: expected a list, found 3"),
    (list[COUNT], [1, "2"], r"x: expected '\[1\]' to be an integer, found '2'"),
    (BUFFERED_ITEM, [7], r"x: expected a list of length 2, found \[7\]"),
    (saved_dict(next=COUNT), [], "x: expected a dict, found "),
    (saved_dict(next=COUNT), {}, "x: expected a dict with the key 'next', found {}"),
    (saved_dict(next=NotRequired[COUNT]), {"next": None}, "x: expected 'next' to be an integer, found None"),
    (
        saved_dict(**{"0": saved_dict(**{"0 read": COUNT})}),
        {"0": {"0 read": -5}},
        "'0.0 read' to be an integer >= 0",
    ),
    (list[BUFFERED_ITEM], [[7, 0], [[8, None], 0]], r"x: expected '\[1\]\[0\]' to be an item id, found \[8, None\]"),
    (dict[int, list[COUNT]], {7: [0], 8: [0, "1"]}, r"x 8: expected '\[1\]' to be an integer, found '1'"),
    (
        saved_dict(**{"1.5 mine": list[COUNT]}),
        {"1": 0, "1.5 mine": [0, 7.5]},
        r"'1.5 mine\[1\]' to be an integer, found 7",
    ),
]


@pytest.mark.parametrize(("schema", "value"), VALID, ids=repr)
def test_values_of_the_type_are_accepted(schema: Schema, value: Any) -> None:
    converted(value, schema, "x")


@pytest.mark.parametrize(("schema", "value", "message"), DAMAGED, ids=repr)
def test_other_values_are_refused_by_place_with_what_was_expected_and_found(
    schema: Schema, value: Any, message: str
) -> None:
    with pytest.raises(StateError, match=message):
        converted(value, schema, "x")
