"""Read byte ranges of shards: few open files, and few reads where small samples are neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...dataset.open_files import OpenFiles
from ...errors import EnergonError
from ...storage import ReadableFile

_OPEN_SHARE = 4  # the samples of a run are read from more files than those of its stores

_MIN_COALESCED = 64  # samples; smaller chunks are read one by one
COALESCED_BYTES = 1024 << 10
"""Largest size of samples that are read together, by default; they are held in memory until they are decoded."""

_GAP_BYTES = 8 << 10  # largest gap that is read over: one more read costs as much as copying some KiB
_MIN_PER_RANGE = 2  # samples, on average


@dataclass(eq=False)
class ShardPool:
    """The open shards of all readers of a chain, in one process: their number is limited together.

    Args:
        sources: Number of their sources. The files of a source have its number; members of joins have others.
    """

    readers: int
    sources: int
    _reserved: int = field(default=0, init=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"readers": self.readers, "sources": self.sources}  # the other process opens its own files

    @cached_property
    def shards(self) -> OpenFiles:
        return OpenFiles(share=_OPEN_SHARE)

    def reserve(self, sources: int) -> int:
        """Return the first of some numbers that no source has and no other reader uses for its files."""
        first = self.sources + self._reserved
        self._reserved += sources
        return first


def read_coalesced(
    file: IntArray,
    start: IntArray,
    size_bytes: IntArray,
    *,
    open_file: Callable[[int], ReadableFile],
    begin: Callable[[], None],
    max_bytes: int = COALESCED_BYTES,
) -> list[bytes] | None:
    """Read small samples in any order by few reads, which include the gaps between neighbours.

    Args:
        file: Shape (n,): file number of each sample.
        start: Shape (n,): its first byte in the file.
        size_bytes: Shape (n,): its bytes; -1 if it is not one range.
        begin: Called before the first read.

    Returns:
        The bytes of each sample. None if the samples are too few, too large or too far apart, or if some cannot be
        read: reading them one by one raises an error that names the sample.
    """
    if len(file) < _MIN_COALESCED or size_bytes.min() < 0 or size_bytes.sum() > max_bytes:
        return None
    which, (range_file, range_start, range_bytes) = coalesce_ranges(file, start, size_bytes, gap_bytes=_GAP_BYTES)
    # If samples are far apart, single reads cost the same, and need no copies.
    if len(range_start) * _MIN_PER_RANGE > len(file):
        return None
    begin()
    columns = (column.tolist() for column in (range_file, range_start, range_bytes))
    contents = _read_ranges([*zip(*columns, strict=True)], open_file)
    if contents is None:
        return None
    # Cut the samples out of the ranges.
    first_byte = start - range_start[which]
    cuts = zip(which.tolist(), first_byte.tolist(), (first_byte + size_bytes).tolist(), strict=True)
    return [contents[range_number][first:stop] for range_number, first, stop in cuts]


def coalesce_ranges(
    file: IntArray, start: IntArray, size_bytes: IntArray, *, gap_bytes: int
) -> tuple[IntArray, tuple[IntArray, IntArray, IntArray]]:
    """Join byte ranges of one file to larger ranges, where the gap between them is at most ``gap_bytes``.

    Args:
        file: Shape (n,): file number of each range.
        start: Shape (n,): its first byte in the file.
        size_bytes: Shape (n,): its bytes, at least 0.
        gap_bytes: Largest gap between neighbours of one range.

    Returns:
        Shape (n,): the number of the joined range that contains each range. And the joined ranges, sorted by file and
        start: file, start and bytes.
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
    """Read ranges of ``(file, start, bytes)``; return None if one of them cannot be read completely."""
    try:
        for file, start, size_bytes in ranges:
            open_file(file).expect(start, size_bytes)
        contents = [open_file(file).read_at(start, size_bytes) for file, start, size_bytes in ranges]
    except EnergonError:
        return None
    complete = all(len(content) == size_bytes for content, (*_, size_bytes) in zip(contents, ranges, strict=True))
    return contents if complete else None
