"""List the values inside json parts, as the expressions that a field map names them by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..documents.value_name import ValueName, is_part_name

_MAX_EXPRESSIONS = 200
_MAX_DEPTH = 5
_MAX_KEY = 80  # characters


def json_expressions(documents: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[str, ...]:
    """Return the expressions of all values inside documents, in the order of the first document that has them.

    A mapping inside a mapping is listed by its values only; a list by itself and by its first item.

    Args:
        documents: Pairs of the name of a part and its decoded value.

    >>> json_expressions([("json", {"caption": "a cat", "meta": {"url": "", "tags": ["x"]}})])
    ('json[caption]', 'json[meta][url]', 'json[meta][tags]', 'json[meta][tags][0]')
    """
    found: dict[str, None] = {}
    for part, document in documents:
        for path in _paths(document, ()) if is_part_name(part) else ():
            found.setdefault(ValueName(part, path).expression)
            if len(found) == _MAX_EXPRESSIONS:
                return tuple(found)
    return tuple(found)


def _paths(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if path and not (isinstance(value, Mapping) and value and len(path) < _MAX_DEPTH):
        yield path
    if len(path) == _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if len(key) <= _MAX_KEY and key.isprintable():
                yield from _paths(inner, (*path, key))
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        yield from _paths(value[0], (*path, 0))
