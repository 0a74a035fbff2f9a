"""Fetch the samples of a chunk from object stores, in joined ranges, ahead of their use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...storage import PendingRead, ReadableFile
from .shard_reads import coalesce_ranges

__all__ = ["FetchedRanges"]

_GAP_BYTES = 128 << 10  # one more request takes longer than these bytes
_MAX_RANGE_BYTES = 8 << 20


class FetchedRanges:
    """The samples of a chunk while they are fetched; each is taken once.

    Args:
        file: Shape (n,): file number of each sample.
        start: Shape (n,): its first byte in the file.
        size_bytes: Shape (n,): its bytes.
        wanted: Shape (n,): True for the samples to fetch.
        open_file: Returns the file of a number.

    Attributes:
        cost_bytes: Number of bytes that are fetched; a request counts as 128 KiB at least.
    """

    def __init__(
        self,
        file: IntArray,
        start: IntArray,
        size_bytes: IntArray,
        *,
        wanted: npt.NDArray[np.bool_],
        open_file: Callable[[int], ReadableFile],
    ) -> None:
        rows = np.flatnonzero(wanted)
        self._range_of = np.full(len(file), -1)
        self._first_byte = np.zeros(len(file), np.int64)
        self._fetches: list[PendingRead | None] = []
        self._uses: list[int] = []
        self.cost_bytes = 0
        if not len(rows):
            return
        which, ranges = _join(file[rows], start[rows], size_bytes[rows])
        range_file, range_start, range_bytes = (column.tolist() for column in ranges)
        self._range_of[rows] = which
        self._first_byte[rows] = start[rows] - ranges[1][which]
        self.cost_bytes = int(np.maximum(range_bytes, _GAP_BYTES).sum())
        self._uses = np.bincount(which, minlength=len(range_file)).tolist()
        self._fetches = [None] * len(range_file)
        for number in dict.fromkeys(which.tolist()):  # in the order of their first use
            opened = open_file(range_file[number])
            self._fetches[number] = opened.fetch(range_start[number], range_bytes[number])

    def has(self, row: int) -> bool:
        """Return True if a sample was fetched."""
        return bool(self._range_of[row] >= 0)

    def take(self, row: int, size_bytes: int) -> bytes:
        """Wait for a sample's bytes; those of a range are dropped after its last sample."""
        number = int(self._range_of[row])
        fetch = self._fetches[number]
        if fetch is None:
            raise LookupError(row)
        data, first = fetch.result(), int(self._first_byte[row])
        self._uses[number] -= 1
        if not self._uses[number]:
            self._fetches[number] = None
        return data if first == 0 and len(data) == size_bytes else data[first : first + size_bytes]


def _join(
    file: IntArray, start: IntArray, size_bytes: IntArray
) -> tuple[IntArray, tuple[IntArray, IntArray, IntArray]]:
    """Join ranges with small gaps, up to some size; see :func:`coalesce_ranges`."""
    which, ranges = coalesce_ranges(file, start, size_bytes, gap_bytes=_GAP_BYTES)
    if (ranges[2] <= _MAX_RANGE_BYTES).all():
        return which, ranges
    order = np.lexsort((start, file))
    begins: list[int] = []  # rows of the sorted samples
    last, first_byte = -1, 0
    joined, low, high = which[order].tolist(), start[order].tolist(), (start + size_bytes)[order].tolist()
    for row, number in enumerate(joined):
        if number != last or high[row] - first_byte > _MAX_RANGE_BYTES:
            begins.append(row)
            last, first_byte = number, low[row]
    is_first = np.zeros(len(order), np.int64)
    is_first[begins] = 1
    cut = np.empty_like(order)
    cut[order] = np.cumsum(is_first) - 1
    first = np.array(begins)
    ends = np.maximum.reduceat((start + size_bytes)[order], first)
    return cut, (file[order][first], start[order][first], ends - start[order][first])
