"""The ids of items, which identify an item within its lane and are enough to rebuild it.

An item id consists of integers:

=====================================  ======================================================================
``position``                           a sample: its place in the lane's stream
``(stage, k, item_id)``                the k-th item that a generator made of another item, or an item of the
                                       k-th of several inputs
``(item_id, item_id, …)``              several items joined: a batch, a pack
``("lane", number, item_id)``          an item of another lane, in a batch or pack at the end of a pass
=====================================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ItemId = int | tuple[Any, ...]

LANE_ITEM = "lane"
"""The first part of the id of an item of another lane. Keys of stages start with a digit, so they differ."""


def plain_item_id(item_id: ItemId) -> Any:
    """Convert an item id to the nested lists that a state holds.

    >>> plain_item_id((7, (8, 9)))
    [7, [8, 9]]
    """
    return [plain_item_id(part) for part in item_id] if isinstance(item_id, tuple) else item_id


def as_item_id(saved: Any) -> Any:
    """Convert nested lists of a state to an item id; JSON has no tuples.

    >>> as_item_id([["2 encode_sample", 0, 7], 8])
    (('2 encode_sample', 0, 7), 8)
    """
    return tuple(as_item_id(part) for part in saved) if isinstance(saved, list | tuple) else saved


def position_of(item_id: ItemId) -> int:
    """Return the position of an item's first sample in the lane's stream; -1 if the item has no samples.

    >>> position_of((("2 encode_sample", 0, 7), 8))
    7
    """
    while isinstance(item_id, tuple):
        if not item_id:
            return -1
        item_id = item_id[2] if isinstance(item_id[0], str) else item_id[0]
    return item_id


def sample_index_of(item_id: ItemId, lane: int, lanes: int) -> int:
    """Return the number, unique in the run, of an item's first sample.

    >>> sample_index_of(7, 2, 48), sample_index_of((("lane", 3, 7), 8), 2, 48)
    (338, 339)
    """
    while isinstance(item_id, tuple):
        if not item_id:
            return lane - lanes
        if isinstance(item_id[0], str):
            lane = item_id[1] if item_id[0] == LANE_ITEM else lane
            item_id = item_id[2]
        else:
            item_id = item_id[0]
    return item_id * lanes + lane


def samples_in(item_id: ItemId) -> int:
    """Return the number of samples that an item was made of.

    >>> samples_in((("2 encode_sample", 0, 7), 8))
    2
    """
    if not isinstance(item_id, tuple):
        return 1
    if item_id and isinstance(item_id[0], str):
        return samples_in(item_id[2])
    return sum(map(samples_in, item_id))


def integers_of(item_id: ItemId) -> Iterator[int]:
    """Yield integers that no other item of the same stage has: a seed for its random numbers."""
    if isinstance(item_id, tuple):
        yield len(item_id)
        for part in item_id:
            if not isinstance(part, str):
                yield from integers_of(part)
    else:
        yield item_id
