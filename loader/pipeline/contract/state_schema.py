"""Schemas of the plain data that stages save, and the check of a saved value against one.

========================  ==================================================================
``Count(stop)``           an integer in ``[0, stop)``; ``COUNT`` has the largest stop
``FLAG``                  a bool
``NUMBER``                a finite number of at least 0, also a fraction
``ITEM_ID``               an item id: nested lists of strings, counts and -1; stages know its form
``PLAIN``                 any of these, None and strings, nested in lists and dicts
``Nullable(schema)``      None, or a value of the schema
``[schema]``              a list of any length
``(schema, schema, …)``   a list of this length
``{"key": schema, …}``    a dict; other keys are allowed, with values of ``PLAIN`` and numbers
``NotRequired(schema)``   within a dict: the key may be missing
========================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import Any

from ...format.documents.messages import short_repr

_MAX_COUNT = 1 << 53  # every JSON reader keeps smaller integers exactly

Schema = Any
"""One of the forms in the module's table."""


@dataclass(frozen=True, slots=True)
class Count:
    """An integer in ``[start, stop)``."""

    stop: int = _MAX_COUNT
    start: int = 0

    def accepts(self, value: Any) -> bool:
        """Check a value; a bool is no count."""
        return type(value) is int and self.start <= value < self.stop


@dataclass(frozen=True, slots=True)
class Nullable:
    """None, or a value of a schema."""

    schema: Schema


@dataclass(frozen=True, slots=True)
class NotRequired:
    """The value of a key that may be missing."""

    schema: Schema


class _Leaf(Enum):
    FLAG = "a bool"
    NUMBER = "a number of at least 0"
    ITEM_ID = "an item id"
    PLAIN = "plain data"


COUNT = Count()
FLAG, ITEM_ID, NUMBER, PLAIN = _Leaf.FLAG, _Leaf.ITEM_ID, _Leaf.NUMBER, _Leaf.PLAIN
BUFFERED_ITEM = (ITEM_ID, Nullable(COUNT))
"""The saved form of a :class:`~loader.pipeline.contract.lane.BufferedItem`."""


def check_value(value: Any, schema: Schema, name: str = "") -> None:
    """Check a saved value.

    Args:
        value: The value.
        schema: Its schema.
        name: The value's key, for messages.

    Raises:
        ValueError: The value does not match the schema.

    >>> check_value({"next": 3, "ended": [0, 7]}, {"next": COUNT, "ended": [Count(2)]})
    Traceback (most recent call last):
    ...
    ValueError: expected 'ended' to be an integer in [0, 2), found 7
    """
    if isinstance(schema, Nullable):
        if value is not None:
            check_value(value, schema.schema, name)
    elif isinstance(schema, Count):
        if not schema.accepts(value):
            raise _mismatch(f"an integer in [{schema.start}, {schema.stop})", value, name)
    elif schema is FLAG:
        if type(value) is not bool:
            raise _mismatch(FLAG.value, value, name)
    elif schema is NUMBER:
        if type(value) not in (int, float) or not (isfinite(value) and value >= 0):
            raise _mismatch(NUMBER.value, value, name)
    elif schema is ITEM_ID:
        if not (type(value) is int and 0 <= value < _MAX_COUNT):  # most ids are positions
            _check_leaves(value, name, containers=(list, tuple), leaves=(str,), least=-1)
    elif schema is PLAIN:
        _check_leaves(value, name, containers=(list, tuple, Mapping), leaves=(str, bool, type(None)))
    elif isinstance(schema, dict):
        _check_dict(value, schema, name)
    else:
        _check_list(value, schema, name)


def item_ids_in(value: Any, schema: Schema) -> Iterator[Any]:
    """Yield the item ids in a saved value that matches its schema.

    >>> list(item_ids_in({"next": 3, "held": [[7, 0], [[8, 9], 0]]}, {"next": COUNT, "held": [BUFFERED_ITEM]}))
    [7, [8, 9]]
    """
    if isinstance(schema, Nullable | NotRequired):
        if value is not None:
            yield from item_ids_in(value, schema.schema)
    elif schema is ITEM_ID:
        yield value
    elif isinstance(schema, dict):
        for key, inner in schema.items():
            if key in value:
                yield from item_ids_in(value[key], inner)
    elif schema == [ITEM_ID]:
        yield from value
    elif schema == [BUFFERED_ITEM]:
        yield from [item_id for item_id, _ in value]  # one generator for each item takes ten times as long
    elif isinstance(schema, list | tuple):
        schemas: Iterable[Schema] = schema if isinstance(schema, tuple) else schema * len(value)
        for element, inner in zip(value, schemas, strict=True):
            yield from item_ids_in(element, inner)


def _check_dict(value: Any, schema: dict[str, Schema], name: str) -> None:
    if not isinstance(value, Mapping):
        raise _mismatch("a dict", value, name)
    for key, inner in schema.items():
        if key not in value:
            if not isinstance(inner, NotRequired):
                raise ValueError(f"expected {name!r} to have the key {key!r}")
        else:
            check_value(value[key], inner.schema if isinstance(inner, NotRequired) else inner, key)
    for key in value:
        if key not in schema:
            _check_unknown(value[key], str(key))


def _check_unknown(value: Any, name: str) -> None:
    """Check the value of another key: the state of a dataset that left the mix has volumes, which are fractions."""
    if type(value) is float:
        check_value(value, NUMBER, name)
    elif isinstance(value, list | tuple | Mapping):
        for inner in value.values() if isinstance(value, Mapping) else value:
            _check_unknown(inner, name)
    else:
        check_value(value, PLAIN, name)


def _check_list(value: Any, schema: list[Schema] | tuple[Schema, ...], name: str) -> None:
    if not isinstance(value, list | tuple):
        raise _mismatch("a list", value, name)
    if isinstance(schema, tuple) and len(value) != len(schema):
        raise _mismatch(f"a list of {len(schema)} values", value, name)
    if schema == [BUFFERED_ITEM]:
        value = [element for element in value if not _is_buffered_position(element)]  # there may be thousands
    schemas: Iterable[Schema] = schema if isinstance(schema, tuple) else schema * len(value)
    for inner, inner_schema in zip(value, schemas, strict=True):
        check_value(inner, inner_schema, name)


def _is_buffered_position(value: Any) -> bool:
    """Return True for the most frequent value of ``BUFFERED_ITEM``: a position and the number of a micro-batch."""
    if type(value) is not list or len(value) != 2:
        return False
    position, batch = value
    return type(position) is int and type(batch) is int and 0 <= position < _MAX_COUNT and 0 <= batch < _MAX_COUNT


def _check_leaves(
    value: Any, name: str, *, containers: tuple[type, ...], leaves: tuple[type, ...], least: int = 0
) -> None:
    is_container: bool = isinstance(value, containers)
    if is_container:
        for inner in value.values() if isinstance(value, Mapping) else value:
            _check_leaves(inner, name, containers=containers, leaves=leaves, least=least)
    elif not (
        COUNT.accepts(value) or isinstance(value, leaves) or (least < 0 and type(value) is int and value == least)
    ):
        raise _mismatch(f"integers in [0, {_MAX_COUNT})", value, name, verb="hold")


def _mismatch(expected: str, value: Any, name: str, *, verb: str = "be") -> ValueError:
    return ValueError(f"expected {name!r} to {verb} {expected}, found {short_repr(value)}")
