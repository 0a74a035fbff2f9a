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

from .lane import Lane

__all__ = ["ItemId", "as_item_id", "integers_of", "plain", "position_of", "set_restore_key"]

ItemId = int | tuple[Any, ...]


def as_item_id(saved: Any) -> Any:
    """Turn what a state holds of a ref, or any plain data, back into tuples, which JSON has no name for.

    >>> as_item_id([["2 encode_sample", 0, 7], 8])
    (('2 encode_sample', 0, 7), 8)
    """
    return tuple(as_item_id(part) for part in saved) if isinstance(saved, list | tuple) else saved


def plain(item_id: ItemId) -> Any:
    """Turn a ref into what a state holds.

    >>> plain((7, (8, 9)))
    [7, [8, 9]]
    """
    return [plain(part) for part in item_id] if isinstance(item_id, tuple) else item_id


def position_of(item_id: ItemId) -> int:
    """Give the place in the lane's stream of an item, of its first sample where several were joined; -1 for none.

    >>> position_of((("2 encode_sample", 0, 7), 8))
    7
    """
    while isinstance(item_id, tuple):
        if not item_id:
            return -1
        item_id = item_id[2] if isinstance(item_id[0], str) else item_id[0]
    return item_id


def integers_of(item_id: ItemId) -> Iterator[int]:
    """Give integers that no other ref has."""
    if isinstance(item_id, tuple):
        yield len(item_id)
        for part in item_id:
            if not isinstance(part, str):
                yield from integers_of(part)
    else:
        yield item_id


def set_restore_key(value: Any, stage: str, lane: Lane, item_id: ItemId) -> None:
    """Note on an item which stage made it of what: ``(stage, lane, micro-batch, ref)``.

    Only what has a ``__restore_key__`` is noted on: samples, batches and dicts that bear one.
    """
    if type(value) is list:
        return  # which most batches without a class of their own are
    if isinstance(value, dict):
        if "__restore_key__" in value:
            value["__restore_key__"] = (stage, lane.number, lane.context.batch_index, item_id)
    elif hasattr(value, "__restore_key__"):
        key = (stage, lane.number, lane.context.batch_index, item_id)
        try:
            value.__restore_key__ = key
        except AttributeError:  # a frozen dataclass, whose own __init__ does it so, too
            object.__setattr__(value, "__restore_key__", key)
