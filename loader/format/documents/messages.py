"""Show values of a document in messages, shortened if they are long, and suggest names for misspelled ones."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

_MAX_KEYS = 10
_MAX_KEY_LETTERS = 60
_MAX_TEXT_LETTERS = 120
_MAX_BITS = 1000  # Python refuses to print integers of thousands of digits


class _Repr(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if x.bit_length() < _MAX_BITS else f"<an integer of {x.bit_length():,} bits>"


_SHORT = _Repr()
_SHORT.maxlevel = 3
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = 6
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80


def short_repr(value: object) -> str:
    """Return the ``repr`` of a value, with long and deep parts cut.

    >>> short_repr({"a": [1, "x"]}), len(short_repr("x" * 10_000))
    ("{'a': [1, 'x']}", 80)
    >>> short_repr([10**5000])
    '[<an integer of 16,610 bits>]'
    """
    return _SHORT.repr(value)


def short_text(text: str) -> str:
    """Return the ``repr`` of a text, with the end of a long text cut.

    >>> short_text("a.tar"), len(short_text("x" * 10_000))
    ("'a.tar'", 120)
    """
    return repr(text if len(text) <= _MAX_TEXT_LETTERS else text[: _MAX_TEXT_LETTERS - 3] + "…")


def short_key(key: object) -> str:
    """Return a key of any type as one step of a place (``splits.train``)."""
    return key if isinstance(key, str) and len(key) <= _MAX_KEY_LETTERS else short_repr(key)


def short_keys(mapping: Mapping[Any, Any]) -> str:
    """Return the first keys of a mapping as text."""
    keys = [short_repr(key) for key in islice(mapping, _MAX_KEYS)]
    return ", ".join(keys + ["…"] * (len(mapping) > len(keys))) or "an empty mapping"


def nearest_names(name: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """Return the known names that are similar to ``name`` in any case, the most similar first.

    >>> nearest_names("feild_map", ["field_map", "subflavors"])
    ['field_map']
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=limit, cutoff=0.6)
    return [by_lower[lower] for lower in matches]


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or nothing if no known name is similar.

    >>> nearest_hint("tran", ["train", "val"]), nearest_hint("zzz", ["train", "val"])
    ("; did you mean 'train'?", '')
    """
    return "".join(f"; did you mean {nearest!r}?" for nearest in nearest_names(name, known, limit=1))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or the list of known names if none is similar.

    >>> did_you_mean("feild_map", ["field_map", "subflavors"])
    "; did you mean 'field_map'?"
    >>> did_you_mean("zzz", ["a", "b"])
    '; known are a, b'
    """
    names = list(known)
    return nearest_hint(name, names) or f"; known are {', '.join(names)}"
