"""The known name nearest to one that was mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest_names"]


def nearest_names(name: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """Give the known names that look like ``name``, the most alike first; case does not count.

    >>> nearest_names("feild_map", ["field_map", "subflavors"])
    ['field_map']
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=limit, cutoff=0.6)
    return [by_lower[lower] for lower in found]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Give ``"; did you mean 'x'?"``, or the list of known names where none is alike.

    >>> did_you_mean("feild_map", ["field_map", "subflavors"])
    "; did you mean 'field_map'?"
    >>> did_you_mean("zzz", ["a", "b"])
    '; known are a, b'
    """
    names = list(known)
    near = nearest_names(name, names, limit=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(names)}"
