"""Types of the plain data that stages save, and the conversion of saved values to them.

The types are annotated with their ranges, as msgspec takes them. A stage declares the type of its entry as
``entry_schema``.

=====================  ==================================================================
``COUNT``              an integer in ``[0, 2**53)``
``RANKS``              a number of ranks, or of lanes
``NUMBER``             a finite number of at least 0, also a fraction
``ITEM_ID``            an item id: nested lists of texts, counts and -1; stages know its form
``BUFFERED_ITEM``      the saved form of a :class:`~loader.pipeline.contract.lane.BufferedItem`
``saved_dict(…)``      a dict with the keys that are named; other keys are allowed, with any values
=====================  ==================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from sys import float_info
from typing import Annotated, Any, TypedDict, get_args

from msgspec import Meta, ValidationError, convert

from ...errors import StateError
from ...format.documents.messages import short_key, short_repr

_MAX_COUNT = (1 << 53) - 1  # every JSON reader keeps integers up to here exactly

Schema = Any
"""A type that msgspec converts to."""

COUNT = Annotated[int, Meta(ge=0, le=_MAX_COUNT)]
RANKS = Annotated[int, Meta(ge=1, le=1 << 32)]  # far more ranks or lanes than any run has
NUMBER = Annotated[int, Meta(ge=0, le=_MAX_COUNT)] | Annotated[float, Meta(ge=0, le=float_info.max)]


class _SavedItemId:
    """Represent an item id in types: msgspec has no recursive lists."""


ITEM_ID = _SavedItemId
_SAVED_ITEM_ID = ITEM_ID()
BUFFERED_ITEM = tuple[ITEM_ID, COUNT | None]

# The names of types in the messages of msgspec, in plain words.
_NAMES = {
    "array": "a list",
    "bool": "a bool",
    "float": "a number",
    "int": "an integer",
    "null": "None",
    "object": "a dict",
    "str": "a text",
}


def count_below(stop: int) -> Schema:
    """Return the type of the integers in ``[0, stop)``."""
    return Annotated[int, Meta(ge=0, lt=stop)]


def saved_dict(**types: Schema) -> Schema:
    """Return the type of a dict with these keys, which are required unless their type is ``NotRequired[…]``."""
    return TypedDict("saved_dict", types)  # type: ignore[operator]


def converted(value: Any, schema: Schema, name: str) -> Any:
    """Return a saved value as its type; keys that a :func:`saved_dict` does not name are left out.

    Args:
        value: The value.
        schema: Its type.
        name: The place of the value in the state, for messages; empty for the state itself.

    Raises:
        StateError: The value, or one in it, has another type, or is out of its range.

    >>> converted({"next": 3, "ended": [0, 7]}, saved_dict(next=COUNT, ended=list[count_below(2)]), "lane 5")
    Traceback (most recent call last):
    ...
    loader.errors.StateError: this state is damaged: lane 5: expected 'ended[1]' to be an integer <= 1, found 7
      hint: restore another state
    """
    try:
        return convert(value, schema, str_keys=True, dec_hook=_checked_item_id)
    except ValidationError as error:
        expected, _, path = str(error).partition(" - at ")
        path = path.replace("`", "").removeprefix("$").removeprefix("key in $")
        # msgspec does not name the entries of dicts.
        if path.startswith("[...]"):
            for key, inner in value.items():
                converted(inner, get_args(schema)[1], f"{name} {short_key(key)}")
        # Name the place, and what was expected and found there.
        subject = f"{path.removeprefix('.')!r} to be " if path else ""
        if " - at `key`" in str(error):
            subject = f"each key of {path.removeprefix('.') or name!r} to be "
        prefix = f"{name}: " if name else ""
        reason = f"{prefix}expected {subject}{_in_words(expected)}, found {short_repr(_value_at(value, path))}"
        raise StateError(f"this state is damaged: {reason}", hint="restore another state") from error


def _checked_item_id(_: Any, value: Any) -> _SavedItemId:
    if not _is_item_id(value):
        raise ValueError("Expected an item id")
    return _SAVED_ITEM_ID


def _is_item_id(value: Any) -> bool:
    """Return True for a position, for joined ids, and for the id of an item that a stage made: it begins with a text.

    A stage may put texts, counts and -1 into its ids.
    """
    if not isinstance(value, list | tuple):
        return _is_count(value)
    is_of_stage = bool(value) and isinstance(value[0], str)
    return all(_is_item_id(part) or (is_of_stage and (isinstance(part, str) or part == -1)) for part in value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_COUNT


def _in_words(expected: str) -> str:
    """Return what msgspec expected in the words of other messages.

    >>> _in_words("Expected `int | null`, got `str`"), _in_words("Object missing required field `next`")
    ('an integer or None', "a dict with the key 'next'")
    """
    expected = re.sub(r", got .*", "", expected.removeprefix("Expected "))
    expected = re.sub(r"^Object missing required field `(.*)`", r"a dict with the key '\1'", expected)
    names = re.search("`(.*)`", expected)
    if names is None:
        return expected
    return expected.replace(names[0], " or ".join(_NAMES.get(name, name) for name in names[1].split(" | ")))


def _value_at(value: Any, path: str) -> Any:
    """Return the value at a path of msgspec, such as ``.held[3][0]``, or the last one on it whose place is known."""
    while path:
        keys = [key for key in value if path.startswith(f".{key}")] if isinstance(value, Mapping) else []
        index = re.match(r"\[([0-9]+)\]", path)
        if keys:
            key = max(keys, key=len)
            value, path = value[key], path[1 + len(key) :]
        elif index is not None:
            value, path = value[int(index[1])], path[index.end() :]
        else:
            break
    return value


def item_ids_in(value: Any, schema: Schema) -> list[Any]:
    """Return the item ids in a saved value of a type.

    >>> item_ids_in({"next": 3, "held": [[7, 0], [[8, 9], 0]]}, saved_dict(next=COUNT, held=list[BUFFERED_ITEM]))
    [7, [8, 9]]
    """
    item_ids: list[Any] = []

    def note(_: Any, item_id: Any) -> _SavedItemId:
        item_ids.append(item_id)
        return _SAVED_ITEM_ID

    convert(value, schema, dec_hook=note)
    return item_ids
