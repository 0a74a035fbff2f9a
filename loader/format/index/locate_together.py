"""Locate a few samples of each of many datasets at once: a blend of hundreds reads few of each at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ..tar.header import BLOCK
from .locations import SampleLocations, SampleLocator, ascii_keys, row_ranges


class _Rows(NamedTuple):
    """Columns of the index of one dataset, for samples of one part each."""

    ends: IntArray  # of the samples' rows of parts
    first: IntArray  # rows of parts
    offset: npt.NDArray[Any]  # in blocks
    size: npt.NDArray[Any]
    shard: IntArray
    shard_size: IntArray
    keys: npt.NDArray[np.uint8]  # shape (n, length)
    names: list[str]


def locate_together(groups: Sequence[tuple[SampleLocator, IntArray]]) -> SampleLocations | None:
    """Return the locations of samples of several datasets, dataset by dataset.

    It takes a third of the time that the locators take one by one.

    Args:
        groups: Locators, each with the numbers of its samples.

    Returns:
        None if some samples do not have one part, which is wanted, if their keys are of several lengths, or if the
        index has a fault: then the locators have to be called, which name it.
    """
    found: list[_Rows] = []
    for locator, samples in groups:
        rows = _rows_of(locator, samples)
        if rows is None:
            return None
        found.append(rows)
    ends, first, offset, size, shard, shard_size = (
        np.concatenate([rows[column] for rows in found]) for column in range(6)
    )
    if len({rows.keys.shape[1] for rows in found}) > 1:
        return None
    keys = ascii_keys(np.concatenate([rows.keys for rows in found]))
    if keys is None:
        return None
    start = offset.astype(np.int64) * BLOCK
    size = size.astype(np.int64)  # the index has them unsigned: very large ones are negative here
    one_each = (ends - first == 1) & (first >= 0)
    if not (one_each & (start > 0) & (size >= 0) & (size <= shard_size - start)).all():
        return None
    sizes = size.tolist()
    return SampleLocations(
        sample=list(chain.from_iterable(samples.tolist() for _, samples in groups)),
        key=keys,
        shard=shard,
        start=start,
        size_bytes=size,
        first_part=range(len(sizes) + 1),
        part_name=list(chain.from_iterable(rows.names for rows in found)),
        part_start=[0] * len(sizes),
        part_stop=sizes,
    )


def _rows_of(locator: SampleLocator, samples: IntArray) -> _Rows | None:
    """Look samples up in an index; None if they have other parts than one wanted one."""
    columns = locator.columns
    first, ends = row_ranges(columns.part_ends, samples)
    try:
        number = columns.part_name[first]
        offset, size = columns.part_offset[first], columns.part_size[first]
    except IndexError:
        return None
    known = len(locator.wanted_names)
    names = [locator.wanted_names[one] or "" if one < known else "" for one in number.tolist()]
    if "" in names:
        return None
    several = len(locator.shard_sizes) > 1
    shard = np.searchsorted(locator.shard_starts, samples, side="right") - 1 if several else np.zeros_like(samples)
    keys = locator.gather_keys(samples)
    if keys is None:
        return None
    return _Rows(ends, first, offset, size, shard, locator.shard_sizes[shard], keys, names)
