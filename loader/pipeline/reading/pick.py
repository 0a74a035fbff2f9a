"""Read single samples by their numbers, and map these numbers around excluded samples, for random access."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...order import SequentialPass
from ...samples.building.sample_builder import RawSample
from ..contract.item_id import ItemId, position_of
from ..contract.lane import Lane
from ..contract.stage import Running, State
from ..contract.worker_config import WorkerConfig
from .dataset_source import DatasetSource
from .fetched_ranges import MEMBER_BYTES
from .joined_source import JoinedSource
from .order_plan import SequentialPlan
from .read import ReadDataset
from .read_ahead import ReadAhead
from .sample_chunk import SampleChunk
from .source import Raw, Source

_CHUNK = 64
"""Samples that are located together in a stream: a search takes as long as for one, and small ones are read at once."""

_MAX_JOINED = 4096
"""Samples of a stream among which neighbours are looked for, to fetch them by one request."""

_FILE_SHIFT = 32
"""Bits of a shard's number in the number of a file, which begins with the number of its source."""


class PickDataset(ReadDataset):
    """Read samples by number, counted from 0 over consecutive sources, excluded samples included.

    Its ``next`` is never called: the stages above rebuild single samples by ``load``, and this reader returns their
    bytes. Let it follow ``picking.read`` for numbers that are needed together, so that one search locates all of them.
    """

    def __init__(self, sources: Sequence[Source], *, worker_config: WorkerConfig) -> None:
        for source in sources:
            source.begin_without("")
        super().__init__(sources, SequentialPlan(), worker_config=worker_config)

    @property
    def sparse(self) -> frozenset[int]:
        """All sources: callers may pick few samples."""
        return frozenset(range(len(self.sources)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "picking"}

    @cached_property
    def picking(self) -> _Picking:
        return _Picking(self)

    def open(self, lane: Lane, state: State) -> Running:  # noqa: ARG002 - has no position
        return self.picking


class _Picking:
    """The running reader. Threads may use all but :meth:`load` at the same time.

    Attributes:
        starts: The position of the first sample of each source.
    """

    def __init__(self, definition: PickDataset) -> None:
        self._definition = definition
        self._sources = definition.sources
        counts = tuple(source.samples for source in definition.sources)
        self.starts = np.cumsum((0, *counts))[:-1].tolist()
        self._order = SequentialPass(counts, lanes=1)
        self._table = definition.opened
        self._shard_starts: dict[int, list[int]] = {}
        self._following: Iterator[tuple[Raw, int]] = iter(())

    def follow(self, samples: Iterator[tuple[Raw, int]]) -> None:
        self._following = samples

    def read(self, positions: Sequence[int]) -> Iterator[tuple[Raw, int]]:
        return self._table.chunk(*self.locate(positions), None).read(positions, _begin)

    def stream(self, numbers: Sequence[int], positions: Callable[[IntArray], IntArray]) -> Iterator[tuple[Raw, int]]:
        """Yield many samples with their positions; the bytes of later ones are fetched ahead.

        Args:
            positions: Returns the positions of some numbers, shape (n,); of omitted samples none.
        """
        chunks = _Chunks(self, numbers, positions)
        ahead_bytes = self._definition.ahead_bytes(lanes=1)
        ahead = ReadAhead(
            chunks.locate_next,
            ahead_bytes=ahead_bytes,
            samples_joined=min(_MAX_JOINED, 1 + ahead_bytes // (self._definition.sample_bytes + MEMBER_BYTES)),
            begin=_begin,
        )
        while True:
            try:
                samples = ahead.next()
            except StopIteration:
                return
            yield from samples

    def read_one(self, position: int) -> Raw:
        """Read one sample, without the search that locates many."""
        source_number, index = self.index_of(position)
        source = self._sources[source_number]
        if isinstance(source, JoinedSource):
            return next(self.read([position]))[0]
        [shards] = source.members
        shard = bisect_right(self._starts_of_shards(source_number, shards), index) - 1
        name, files = (source_number << _FILE_SHIFT) + shard, self._definition.pool.shards
        # Few samples of the shard will be read, so a store should fetch no other bytes of it.
        file = files.find(name)
        if file is None:
            file = files.add(name, shards.folder.open_shard(shards.folder.index.shards[shard]))
            file.expect_few()
        parts = shards.folder.stored_parts(file, index, shards.recipe.builder.part_filter)
        # A row with values that cannot be read stays whole: it holds their errors, too.
        is_one = len(parts) == 1 and type(parts) is dict
        part, data = next(iter(parts.items())) if is_one else (None, parts)
        return RawSample(source_number, index, shards.shard_names[shard], shards.folder.index.key(index), part, data)

    def index_of(self, position: int) -> tuple[int, int]:
        source_number = bisect_right(self.starts, position) - 1
        return source_number, self._table.index_number(source_number, position - self.starts[source_number])

    def _starts_of_shards(self, source_number: int, source: DatasetSource) -> list[int]:
        starts = self._shard_starts.get(source_number)
        if starts is None:
            starts = [shard.first_sample for shard in source.folder.index.shards]
            self._shard_starts[source_number] = starts
        return starts

    def place_of(self, position: int) -> str:
        """Describe the location of a sample, without reading it."""
        source, index = self.locate([position])
        return self._sources[int(source[0])].folder.place_of(int(index[0]))

    def locate(self, positions: Sequence[int] | IntArray) -> tuple[IntArray, IntArray]:
        source, _, sample = self._order.locate(np.asarray(positions, dtype=np.int64))
        return source, self._table.index_numbers(source, sample)

    def chunk(self, positions: IntArray) -> SampleChunk:
        return self._table.chunk(*self.locate(positions), None)

    def load(self, item_id: ItemId) -> Any:
        position = position_of(item_id)
        raw, following = next(self._following, (None, -1))
        return raw if following == position else self.read_one(position)

    def next(self) -> NoReturn:
        raise StopIteration

    def state(self) -> State:
        return {}


class _Chunks:
    """The samples of a stream, located some at a time."""

    def __init__(self, picking: _Picking, numbers: Sequence[int], positions: Callable[[IntArray], IntArray]) -> None:
        self._picking = picking
        self._numbers = numbers
        self._positions = positions
        self._next = 0

    def locate_next(self) -> tuple[SampleChunk, Sequence[int]]:
        """Return the next chunk, and the positions of its samples; raise ``StopIteration`` after the last one."""
        while self._next < len(self._numbers):
            some = np.asarray(self._numbers[self._next : self._next + _CHUNK], dtype=np.int64)
            self._next += _CHUNK
            positions = self._positions(some)
            if len(positions):
                return self._picking.chunk(positions), positions.tolist()
        raise StopIteration


def _begin(position: int) -> None:
    """Ignore the position: no other process reports crashes of this one."""


def excluded_positions(sources: Sequence[Source]) -> IntArray:
    """Return the positions of all excluded samples, ascending, counted over consecutive sources."""
    firsts = accumulate((source.samples for source in sources), initial=0)
    return np.concatenate([first + source.selection.excluded for first, source in zip(firsts, sources, strict=False)])


def positions_without(excluded: IntArray, numbers: IntArray) -> IntArray:
    """Return the positions of samples whose numbers do not count excluded samples.

    >>> positions_without(np.array([0, 3]), np.arange(4)).tolist()
    [1, 2, 4, 5]
    """
    before = excluded - np.arange(len(excluded))  # number of other samples before each excluded one
    return numbers + np.searchsorted(before, numbers, side="right")


def replacements(excluded: IntArray, total: int) -> IntArray:
    """Return for each excluded sample the next one that is not, wrapping around at the end.

    >>> replacements(np.array([0, 3, 4, 6]), 7).tolist()
    [1, 5, 5, 1]
    """
    runs = np.cumsum(np.diff(excluded, prepend=-2) != 1) - 1  # number of the run of neighbours that each sample is in
    ends = np.flatnonzero(np.diff(excluded, append=total + 1) != 1)
    following = excluded[ends] + 1
    following[following == total] = positions_without(excluded, np.zeros(1, dtype=np.int64))[0]
    return np.asarray(following[runs], dtype=np.int64)
