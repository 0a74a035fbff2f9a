"""Values of a document in messages: short, whatever the document holds."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from itertools import islice
from typing import Any

__all__ = ["shown", "shown_key", "shown_keys"]

_KEYS = 10
_KEY_LETTERS = 60
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = 6
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80


def shown(value: object) -> str:
    """Write a value as Python does, but of long and deep ones only a part.

    >>> shown({"a": [1, "x"]}), len(shown("x" * 10_000))
    ("{'a': [1, 'x']}", 80)
    """
    return _SHORT.repr(value)


def shown_key(key: object) -> str:
    """Write a key that may be of any type as part of a place."""
    return key if isinstance(key, str) and len(key) <= _KEY_LETTERS else shown(key)


def shown_keys(mapping: Mapping[Any, Any]) -> str:
    """Write the first keys of a mapping."""
    some = [shown(key) for key in islice(mapping, _KEYS)]
    return ", ".join(some + ["…"] * (len(mapping) > len(some))) or "an empty mapping"
