"""Small samples that lie near each other, read a range at a time: one read costs as much as copying some kilobytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...arrays import IntArray
from ...errors import EnergonError
from ...storage import ReadableFile

__all__ = ["coalesce_ranges", "read_coalesced"]

_MANY = 64  # samples; of fewer there are no neighbours
_MOST_BYTES = 512 << 10  # of samples, which wait in memory for their turn
_GAP_BYTES = 8 << 10  # between neighbours
_LEAST_TOGETHER = 2  # samples of a read, on average


def read_coalesced(
    file: IntArray,
    start: IntArray,
    size_bytes: IntArray,
    *,
    open_file: Callable[[int], ReadableFile],
    begin: Callable[[], None],
) -> list[bytes] | None:
    """Read some samples of any order, with the gaps between neighbours.

    Args:
        file: Shape (n,): the number of each one's file.
        start: Shape (n,): where in the file it starts, in bytes.
        size_bytes: Shape (n,): its bytes; -1 where it is not one range.
        open_file: Gives a file by its number.
        begin: Is called before something is read.

    Returns:
        Their bytes. None where they are better read one by one: they are few, large or far from each other, or some of
        them cannot be read, about which there is more to say when each is tried.
    """
    if len(file) < _MANY or size_bytes.min() < 0 or size_bytes.sum() > _MOST_BYTES:
        return None
    which, (range_file, range_start, range_bytes) = coalesce_ranges(file, start, size_bytes, gap_bytes=_GAP_BYTES)
    if len(range_start) * _LEAST_TOGETHER > len(file):
        return None
    begin()
    columns = (column.tolist() for column in (range_file, range_start, range_bytes))
    contents = _read_ranges([*zip(*columns, strict=True)], open_file)
    if contents is None:
        return None
    first_byte = start - range_start[which]
    cuts = zip(which.tolist(), first_byte.tolist(), (first_byte + size_bytes).tolist(), strict=True)
    return [contents[number][first:stop] for number, first, stop in cuts]


def coalesce_ranges(
    file: IntArray, start: IntArray, size_bytes: IntArray, *, gap_bytes: int
) -> tuple[IntArray, tuple[IntArray, IntArray, IntArray]]:
    """Join samples of one file that have no more than ``gap_bytes`` between them to ranges.

    Args:
        file: Shape (n,): the number of each one's file.
        start: Shape (n,): where in the file it starts, in bytes.
        size_bytes: Shape (n,): its bytes, at least 0.
        gap_bytes: How far neighbours may lie from each other.

    Returns:
        Shape (n,): the range that each sample is in. And of each range, by file and place: its file, start and bytes.
    """
    order = np.lexsort((start, file))
    file, low, high = file[order], start[order], (start + size_bytes)[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (file[1:] != file[:-1]) | (low[1:] > high[:-1] + gap_bytes)
    which = np.empty_like(order)
    which[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    return which, (file[first], low[first], np.maximum.reduceat(high, first) - low[first])


def _read_ranges(ranges: list[tuple[int, int, int]], open_file: Callable[[int], ReadableFile]) -> list[bytes] | None:
    """Read ranges of ``(file, start, bytes)``; None where one of them cannot be read whole."""
    try:
        for file, start, size_bytes in ranges:
            open_file(file).expect(start, size_bytes)
        contents = [open_file(file).read_at(start, size_bytes) for file, start, size_bytes in ranges]
    except EnergonError:
        return None
    complete = all(len(content) == size_bytes for content, (*_, size_bytes) in zip(contents, ranges, strict=True))
    return contents if complete else None
