"""Fetch the samples of chunks from object stores, in joined ranges, ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from weakref import WeakMethod

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...storage import PendingRead, ReadableFile
from .shard_reads import coalesce_ranges

MEMBER_BYTES = 1 << 10
"""Bytes of a tar file between the contents of neighbours, roughly."""

_MIN_COST_BYTES = 32 << 10  # of a request, in memory and time
_GAP_BYTES = 128 << 10
_NEIGHBOUR_GAP_BYTES = 2 * MEMBER_BYTES  # headers, padding, small parts that are not read
_FIRST_SHARE = 1 / 16  # of the bytes ahead, before one was waited for; a run that ends soon fetches little in vain
_GROWTH = 2  # of the bytes ahead, when they were too few
_IN_FLIGHT_SHARE = 1 << 20  # of the bytes ahead for each range in flight: a process has 64 MiB, and sends 64 requests
_MIN_IN_FLIGHT = 2
_MAX_WASTE = 0.1  # share of a range with larger gaps
_MAX_RANGE_BYTES = 8 << 20


class _Range:
    """Joined samples of one file."""

    __slots__ = ("cost_bytes", "data", "file", "growths", "is_used", "size_bytes", "start", "uses")

    def __init__(self, file: ReadableFile, start: int, size_bytes: int, uses: int) -> None:
        self.file = file
        self.start = start
        self.size_bytes = size_bytes
        self.cost_bytes = max(size_bytes, _MIN_COST_BYTES)
        self.uses = uses  # samples that were not taken yet
        self.data: PendingRead | None = None
        self.growths = 0  # of the queue, when this was fetched
        self.is_used = False


class FetchQueue:
    """The ranges of one lane in the order of their first use, fetched as memory permits.

    Little is fetched ahead at first. The bytes ahead double when a range has not arrived when it is used, although it
    was fetched as early as these bytes permit.

    Args:
        ahead_bytes: Most bytes that are fetched ahead of their first use; a range counts as 32 KiB at least. One range
            always is.
        plan_more: Adds ranges; returns False at the end of the pass.
    """

    def __init__(self, ahead_bytes: int, held_bytes: int, plan_more: WeakMethod[Callable[[], bool]]) -> None:
        self._max_ahead_bytes, self._max_held_bytes = ahead_bytes, held_bytes
        self._limit_bytes = int(_FIRST_SHARE * ahead_bytes)
        self._growths = 0
        self._sent: deque[_Range] = deque()  # those held, and some that were released, in the order of their first use
        self._plan_more = plan_more
        self._planned: deque[_Range] = deque()
        self._ahead_bytes = self._held_bytes = 0

    def clear(self) -> None:
        self._planned.clear()
        self._sent.clear()
        self._ahead_bytes = self._held_bytes = 0

    def add(self, ranges: Sequence[_Range]) -> None:
        self._planned.extend(ranges)

    def fetch_planned(self) -> None:
        while self._planned:
            self._fetch_next()

    def fill(self) -> None:
        plan_more = self._plan_more()
        while self._planned or (plan_more is not None and plan_more()):
            if self._planned and self._is_full(self._planned[0].cost_bytes):
                break
            if self._planned:
                self._fetch_next()

    def _is_full(self, cost_bytes: int) -> bool:
        """Return True if a range does not fit; one is always fetched ahead."""
        ahead_bytes, held_bytes = self._ahead_bytes + cost_bytes, self._held_bytes + cost_bytes
        return self._ahead_bytes > 0 and (ahead_bytes > self._limit_bytes or held_bytes > self._max_held_bytes)

    def result(self, wanted: _Range) -> bytes:
        while wanted.data is None:
            self._fetch_next()
        # The range is in use from now on, so that others may be fetched ahead instead.
        if not wanted.is_used:
            wanted.is_used = True
            self._ahead_bytes -= wanted.cost_bytes
            # If the range was fetched ahead and is awaited all the same, more has to be fetched ahead.
            if wanted.growths == self._growths and not wanted.data.is_done() and not self._is_busy():
                self._limit_bytes = min(_GROWTH * self._limit_bytes, self._max_ahead_bytes)
                self._growths += 1
            self.fill()
        return wanted.data.result()

    def _is_busy(self) -> bool:
        """Return True if as many ranges are awaited as are fetched at a time: more would only wait for their turn."""
        self._sent = deque(sent for sent in self._sent if sent.data is not None and not sent.data.is_done())
        return len(self._sent) >= max(_MIN_IN_FLIGHT, self._max_ahead_bytes // _IN_FLIGHT_SHARE)

    def release(self, used: _Range) -> None:
        """Drop a range after its last use, and fetch others instead."""
        used.data = None
        self._held_bytes -= used.cost_bytes
        self.fill()

    def _fetch_next(self) -> None:
        following = self._planned.popleft()
        self._ahead_bytes += following.cost_bytes
        self._held_bytes += following.cost_bytes
        following.data = following.file.fetch(following.start, following.size_bytes)
        following.growths = self._growths
        while self._sent and self._sent[0].data is None:
            self._sent.popleft()
        self._sent.append(following)


@dataclass(eq=False)
class FetchedRanges:
    """The samples of a chunk while they are fetched; each is taken once.

    Args:
        file: Shape (n,): file number of each sample.
        start: Shape (n,): its first byte in the file.
        size_bytes: Shape (n,): its bytes.
        missing: Shape (n,): True for the samples to fetch that are in no range yet; at first, all of them.

    Attributes:
        ranges: The range of each sample; None if it is not fetched.
    """

    queue: FetchQueue
    file: IntArray
    start: IntArray
    size_bytes: IntArray
    _: KW_ONLY
    missing: npt.NDArray[np.bool_]
    open_file: Callable[[int], ReadableFile]

    def __post_init__(self) -> None:
        self._starts = self.start.tolist()
        self.ranges: list[_Range | None] = [None] * len(self.file)

    def has(self, row: int) -> bool:
        return self.ranges[row] is not None

    def take(self, row: int, size_bytes: int) -> bytes:
        """Wait for a sample's bytes; the bytes of a range are dropped after its last sample."""
        fetched = self.ranges[row]
        if fetched is None:
            raise LookupError(row)
        data, first = self.queue.result(fetched), self._starts[row] - fetched.start
        self.ranges[row] = None
        fetched.uses -= 1
        if not fetched.uses:
            self.queue.release(fetched)
        return data if first == 0 and len(data) == size_bytes else data[first : first + size_bytes]


def join_chunks(chunks: Sequence[FetchedRanges], *, max_bytes: int) -> None:
    """Join the samples of the first chunk to ranges, with samples of later chunks that lie between or next to them."""
    first = chunks[0]
    # If the first chunk has all it needs, nothing is due yet.
    rows = [np.flatnonzero(chunk.missing) for chunk in chunks]
    if not len(rows[0]):
        return
    file, start, size_bytes = (
        np.concatenate([getattr(chunk, name)[some] for chunk, some in zip(chunks, rows, strict=True)])
        for name in ("file", "start", "size_bytes")
    )
    # Join the missing samples of all chunks to ranges, and mark the ranges that the first chunk needs.
    which, (range_file, range_start, range_bytes) = _join(file, start, size_bytes, min(max_bytes, _MAX_RANGE_BYTES))
    edges = np.cumsum([0, *map(len, rows)]).tolist()
    is_needed = np.zeros(len(range_file), bool)
    is_needed[which[: edges[1]]] = True
    # Only these are fetched now. A range is kept until each of its samples was taken.
    uses = np.bincount(which, minlength=len(range_file)).tolist()
    columns = [column.tolist() for column in (range_file, range_start, range_bytes)]
    ranges = {
        index: _Range(first.open_file(columns[0][index]), columns[1][index], columns[2][index], uses[index])
        for index in dict.fromkeys(which[: edges[1]].tolist())  # in the order of their first use
    }
    # Samples of later chunks in these ranges come with them, and are no longer missing.
    for chunk, some, begin, end in zip(chunks, rows, edges, edges[1:], strict=False):
        needed = np.flatnonzero(is_needed[which[begin:end]])
        chunk.missing[some[needed]] = False
        for row, index in zip(some[needed].tolist(), which[begin:end][needed].tolist(), strict=True):
            chunk.ranges[row] = ranges[index]
    first.queue.add([*ranges.values()])


def _join(
    file: IntArray, start: IntArray, size_bytes: IntArray, max_bytes: int
) -> tuple[IntArray, tuple[IntArray, IntArray, IntArray]]:
    """Join neighbours, and samples with larger gaps if the gaps are a small share; see :func:`coalesce_ranges`."""
    # Join in the order of the files: once with small gaps, and once with large ones.
    order = np.lexsort((start, file))
    file, start, size_bytes = file[order], start[order], size_bytes[order]
    near, (_, near_start, near_bytes) = coalesce_ranges(file, start, size_bytes, gap_bytes=_NEIGHBOUR_GAP_BYTES)
    far, (_, _, far_bytes) = coalesce_ranges(file, start, size_bytes, gap_bytes=_GAP_BYTES)
    # Keep a range with large gaps if the samples fill most of it; otherwise use the smaller ranges inside of it.
    far_of_near = np.zeros(len(near_start), np.int64)
    far_of_near[near] = far
    used_bytes = np.bincount(far_of_near, near_bytes, minlength=len(far_bytes))
    is_dense = used_bytes >= (1 - _MAX_WASTE) * far_bytes
    begins = np.ones(len(order), bool)
    begins[1:] = np.where(is_dense[far[1:]], far[1:] != far[:-1], near[1:] != near[:-1])
    _split(begins, start, start + size_bytes, max_bytes)
    # Number the ranges, in the order of the samples as they were passed.
    which = np.empty_like(order)
    which[order] = np.cumsum(begins) - 1
    heads = np.flatnonzero(begins)
    ends = np.maximum.reduceat(start + size_bytes, heads)
    return which, (file[heads], start[heads], ends - start[heads])


def _split(begins: npt.NDArray[np.bool_], low: IntArray, high: IntArray, max_bytes: int) -> None:
    """Split ranges that are too long, between samples; ``begins`` marks the first sample of each range."""
    heads = np.flatnonzero(begins)
    ends = np.append(heads[1:], len(begins))
    for head, end in zip(heads.tolist(), ends.tolist(), strict=True):
        if high[end - 1] - low[head] > max_bytes:
            first_byte = int(low[head])
            for row in range(head + 1, end):
                if high[row] - first_byte > max_bytes:
                    begins[row] = True
                    first_byte = int(low[row])
