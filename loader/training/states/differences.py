"""Differences between runs that keep one from continuing the other, by name: ``batch_size 4 → 8``.

A restore that is refused lists them, and so does ``energon diff``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...format.documents.messages import short_key, short_repr
from .run_state import RunState

__all__ = ["MISSING", "Difference", "chain_differences", "chain_outline", "differences", "run_differences"]

MISSING = "nothing"
"""Text of a value that only one of both has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs.

    Attributes:
        place: Stages and path of the dataset that have the value, such as ``"batch"``; may be empty.
        name: Name of the value, such as ``"batch_size"``.
        before: The value before; None if it is missing.
        after: The value after; None if it is missing.

    >>> print(Difference("batch", "batch_size", 4, 8))
    batch: batch_size 4 → 8
    """

    place: str
    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        name = f"{self.place}: {self.name}" if self.place and self.name else self.place or self.name
        return f"{name} {_shown(self.before)} → {_shown(self.after)}"


_NAMES = {"which": "checksum of the selected samples"}
"""Names of values whose keys in a state are short."""


class _Text(str):
    """A text that is shown without quotes."""

    __slots__ = ()


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return str(value) if isinstance(value, _Text) else short_repr(value)


def differences(saved: Any, now: Any, place: str = "") -> Iterator[Difference]:
    """Yield the differences between two descriptions of chains: nested lists and dicts of plain values.

    Paths do not count: data may be moved.
    """
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        inside = ": ".join(filter(None, (place, str(now["path"])))) if "path" in now else place
        for key in sorted({*saved, *now}, key=short_key):
            before, after = saved.get(key), now.get(key)
            if key == "path" or before == after:  # data may have been moved; the uuid identifies it
                continue
            if isinstance(before, Mapping | list | tuple) and isinstance(after, Mapping | list | tuple):
                yield from differences(before, after, f"{inside}: {short_key(key)}" if inside else short_key(key))
            else:
                yield Difference(inside, _NAMES.get(key, short_key(key)), before, after)
    elif isinstance(saved, list | tuple) and isinstance(now, list | tuple):
        inner = f"{place} > {now[0]}" if now and isinstance(now[0], str) else place
        inner = inner.removeprefix(" > ")
        if len(saved) == len(now):
            for one, other in zip(saved, now, strict=True):
                yield from differences(one, other, inner)
        else:
            yield Difference(inner, "parts", len(saved), len(now))
    elif saved != now:
        yield Difference(place, "" if place else "stage", saved, now)


def chain_outline(identity: Any) -> str:
    """Return the names of a chain's stages, the reader first: ``"read → decode → batch"``."""
    if not (isinstance(identity, list | tuple) and identity and isinstance(identity[0], str)):
        return ""
    sources = [outline for outline in map(chain_outline, identity[2:]) if outline]
    below = f"({', '.join(sources)})" if len(sources) > 1 else "".join(sources)
    return f"{below} → {identity[0]}" if below else identity[0]


def chain_differences(saved: Any, now: Any) -> list[Difference]:
    """Return the differences between the chains of two runs; of other stages, only the outlines.

    Args:
        saved: The description of a chain: its stages, their settings and its data.
        now: That of another one.
    """
    before, after = chain_outline(saved), chain_outline(now)
    if before != after:  # a comparison by position would report all later stages as different
        return [Difference("", "stages", _Text(f"[{before or MISSING}]"), _Text(f"[{after or MISSING}]"))]
    return list(differences(saved, now))


def run_differences(saved: RunState, now: RunState) -> list[Difference]:
    """Return the differences that keep a run from continuing the state of another one, without those of its chain.

    Args:
        saved: The state of a run.
        now: A state of the other run; of ``lanes``, 0 adopts those of the saved run, and so does a ``kind`` of None.
    """
    compared = (
        ("seed_offset", saved.seed, now.seed),
        ("lanes", saved.lanes, now.lanes or saved.lanes),
        ("kind", saved.kind, saved.kind if now.kind is None else now.kind),
    )
    return [Difference("", name, before, after) for name, before, after in compared if before != after]
