"""What names an item within its lane: integers, and tuples of them.

=====================================  ====================================================================
``position``                           a sample: its place in the lane's stream
``(stage, k, ref)``                    the k-th that a generator made of ``ref``; what came from the k-th of
                                       several inner datasets
``(ref, ref, …)``                      what was joined of several: a batch, a pack
=====================================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["Ref", "as_ref", "integers_of", "plain", "position_of"]

Ref = int | tuple[Any, ...]


def as_ref(saved: Any) -> Any:
    """Turn what a state holds of a ref, or any plain data, back into tuples, which JSON has no name for.

    >>> as_ref([["2 encode_sample", 0, 7], 8])
    (('2 encode_sample', 0, 7), 8)
    """
    return tuple(as_ref(part) for part in saved) if isinstance(saved, list | tuple) else saved


def plain(ref: Ref) -> Any:
    """Turn a ref into what a state holds.

    >>> plain((7, (8, 9)))
    [7, [8, 9]]
    """
    return [plain(part) for part in ref] if isinstance(ref, tuple) else ref


def position_of(ref: Ref) -> int:
    """Give the place in the lane's stream of an item, of its first sample where several were joined; -1 for none.

    >>> position_of((("2 encode_sample", 0, 7), 8))
    7
    """
    while isinstance(ref, tuple):
        if not ref:
            return -1
        ref = ref[2] if isinstance(ref[0], str) else ref[0]
    return ref


def integers_of(ref: Ref) -> Iterator[int]:
    """Give integers that no other ref has."""
    if isinstance(ref, tuple):
        yield len(ref)
        for part in ref:
            if not isinstance(part, str):
                yield from integers_of(part)
    else:
        yield ref
