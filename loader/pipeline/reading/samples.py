"""Samples by number: located, read and built, one after another over consecutive sources."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar, overload

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import SampleError, SkipSample
from ...samples.building.sample_builder import RawSample
from ...stores.file_store import MissingFileError
from ..failures.error_handlers import joined_names
from .fetched_ranges import MEMBER_BYTES
from .joined_source import JoinedSource, open_sources
from .read_ahead import READ_AHEAD_BYTES, ReadAhead
from .sample_chunk import OpenSources, SampleChunk
from .shard_reads import ShardPool
from .source import Raw, Source

T_co = TypeVar("T_co", covariant=True)

_CHUNK = 64
"""Samples that are located together in a stream: a search takes as long as for one, and small ones are read at once."""

_MAX_JOINED = 4096
"""Samples of a stream among which neighbours are looked for, to fetch them by one request."""

_FILE_SHIFT = 32
"""Bits of a shard's number in the number of a file, which begins with the number of its source."""


class Samples(Generic[T_co]):
    """A sequence of the samples of consecutive sources; each process opens the files that it reads.

    Samples have positions, which count the samples of all sources, excluded ones included. Numbers count the samples of
    the sequence. Threads may read at the same time.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        for source in sources:
            source.begin_without("")
        self.sources = tuple(sources)
        self._pool = ShardPool(readers=1, sources=len(sources))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_starts", "_opened")}

    @cached_property
    def _opened(self) -> OpenSources:
        # Callers may read few samples of any source.
        return open_sources(self.sources, self._pool, range(len(self.sources)))

    # ---------------------------------------------------------------------------------------------------- numbers

    def __len__(self) -> int:
        """Return the number of samples."""
        return self._starts[-1]

    def _positions(self, numbers: IntArray) -> IntArray:
        """Return the positions of samples by their numbers, shape (n,)."""
        return numbers

    def _kept(self, positions: IntArray) -> IntArray:
        """Return the positions, of ascending ones, that have a number."""
        return positions

    def _number(self, index: int) -> int:
        sample_number, samples = operator.index(index), len(self)
        if not -samples <= sample_number < samples:
            raise IndexError(f"there is no sample {sample_number}: the dataset has {samples}, numbered from 0")
        return sample_number % samples

    def _position(self, index: int) -> int:
        return int(self._positions(np.array([self._number(index)]))[0])

    def _positions_of(self, key: str) -> IntArray:
        """Return the positions of all samples that have a key, ascending; of a row of a join, the first member's."""
        pairs = zip(self._starts, self.sources, strict=False)
        some = [first + position for first, source in pairs for position in source.selection.find(key)]
        return np.array(some, np.int64)

    def _position_of(self, key: str) -> int:
        """Return the position of the sample with a key.

        Raises:
            MissingFileError: There is none, or there are several.
        """
        positions = self._positions_of(key)
        kept = self._kept(positions).tolist()
        if len(kept) == 1:
            return int(kept[0])
        # Name the samples that have the key; an excluded one may have no number.
        places = joined_names([self.place_of(position) for position in kept])
        is_known = len(positions) > 0
        raise MissingFileError(
            f"expected one sample with the key {key!r}, found "
            f"{places or ('an excluded one' if is_known else 'none')}{'' if is_known else self._guess(key)}",
            at=joined_names([source.describe() for source in self.sources]),
            hint=self._key_hint,
        )

    _key_hint = "pass shard/key"

    def _guess(self, key: str) -> str:  # noqa: ARG002 - for sequences that guess
        """Return a hint at a similar key for an unknown one."""
        return ""

    # ---------------------------------------------------------------------------------------------------- samples

    @overload
    def __getitem__(self, index: int | str) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...

    def __getitem__(self, index: int | str | slice) -> T_co | list[T_co]:
        """Return the sample of a number or a key, or the samples of a slice.

        Raises:
            IndexError: There is no such number.
            KeyError: No sample has this key, or several have it (a ``MissingFileError``).
            SampleError: A part of the sample does not decode, or a hook raises ``SkipSample``.
            Exception: A hook raised it; a note names the sample.
        """
        if isinstance(index, slice):
            return self.__getitems__(range(len(self))[index])
        position = self._position_of(index) if isinstance(index, str) else self._position(index)
        return self._build(self.read_one(position), position)

    def __getitems__(self, indices: Iterable[int]) -> list[T_co]:
        """Return samples by their numbers, in this order; all are located by one search."""
        numbers = [self._number(index) for index in indices]
        if len(numbers) < 2:  # which need no search
            return [self[sample_number] for sample_number in numbers]
        positions = self._positions(np.array(numbers, dtype=np.int64))
        samples = self._chunk(positions).read(positions.tolist(), _begin)
        return [self._build(raw, position) for raw, position in samples]

    def __iter__(self) -> Iterator[T_co]:
        """Yield the samples in the order of their numbers; later ones are read ahead."""
        for raw, position in self.stream(range(len(self))):
            yield self._build(raw, position)

    def _build(self, raw: Raw, position: int) -> T_co:
        try:
            sample: T_co = self.sources[raw.source].recipe.build(raw, ())
        except SkipSample as skip:
            message = "the dataset's code skips this sample by SkipSample"
            raise SampleError(message, at=self.place_of(position)) from skip
        return sample

    # -------------------------------------------------------------------------------------------------- raw samples

    def stream(
        self, numbers: Sequence[int] | IntArray, kept: Callable[[IntArray], IntArray] | None = None
    ) -> Iterator[tuple[Raw, int]]:
        """Yield many raw samples with their positions; the bytes of later ones are fetched ahead.

        Args:
            kept: Returns the positions, of some, whose samples are yielded; None yields all.
        """
        some = (np.asarray(numbers[first : first + _CHUNK], np.int64) for first in range(0, len(numbers), _CHUNK))
        positions = map(self._positions, some)
        chunks = positions if kept is None else filter(len, map(kept, positions))
        # Files of this machine are read when it is their turn.
        if not any(member.folder.is_fetched for source in self.sources for member in source.members):
            for chunk in chunks:
                yield from self._chunk(chunk).read(chunk.tolist(), _begin)
            return
        located = _Chunks(chunks, self._chunk)
        sample_bytes = max(source.folder.sample_bytes for source in self.sources)
        ahead = ReadAhead(
            located.locate_next,
            ahead_bytes=READ_AHEAD_BYTES,
            samples_joined=min(_MAX_JOINED, 1 + READ_AHEAD_BYTES // (sample_bytes + MEMBER_BYTES)),
            begin=_begin,
        )
        while True:
            try:
                samples = ahead.next()
            except StopIteration:
                return
            yield from samples

    def read_one(self, position: int) -> Raw:
        """Read one raw sample, without the search that locates many."""
        source_number, index = self.index_of(position)
        source = self.sources[source_number]
        if isinstance(source, JoinedSource):
            row: Raw = next(self._chunk(np.array([position])).read([position], _begin))[0]
            return row
        [shards] = source.members
        shard = shards.folder.index.shard_number(index)
        name, files = (source_number << _FILE_SHIFT) + shard, self._pool.shards
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

    @cached_property
    def _starts(self) -> list[int]:
        """The position of the first sample of each source, and of the end."""
        starts: list[int] = np.cumsum([0, *(len(source.selection) for source in self.sources)]).tolist()
        return starts

    def index_of(self, position: int) -> tuple[int, int]:
        """Return the source of a sample, and its number in the index or join."""
        source_number = bisect_right(self._starts, position, hi=len(self.sources)) - 1
        return source_number, self._opened.index_number(source_number, position - self._starts[source_number])

    def locate(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """Return the sources of samples, and their numbers in the indexes or joins, both of shape (n,)."""
        starts = np.array(self._starts)
        source = starts[:-1].searchsorted(positions, side="right") - 1
        return source, self._opened.index_numbers(source, positions - starts[source])

    def place_of(self, position: int) -> str:
        """Describe the location of a sample, without reading it."""
        source_number, index = self.index_of(position)
        return self.sources[source_number].folder.place_of(index)

    def _chunk(self, positions: IntArray) -> SampleChunk:
        return self._opened.chunk(*self.locate(positions), None)


class _Chunks:
    """The samples of a stream, located some at a time."""

    def __init__(self, positions: Iterator[IntArray], locate: Callable[[IntArray], SampleChunk]) -> None:
        self._positions = positions
        self._locate = locate

    def locate_next(self) -> tuple[SampleChunk, Sequence[int]]:
        """Return the next chunk, and the positions of its samples; raise ``StopIteration`` after the last one."""
        positions = next(self._positions)
        return self._locate(positions), positions.tolist()


def _begin(position: int) -> None:
    """Ignore the position: no other process reports crashes of this one."""


def excluded_positions(sources: Sequence[Source]) -> IntArray:
    """Return the positions of all excluded samples, ascending, counted over consecutive sources."""
    firsts = accumulate((len(source.selection) for source in sources), initial=0)
    pairs = zip(firsts, sources, strict=False)
    return np.concatenate([np.empty(0, np.int64), *(first + source.selection.excluded for first, source in pairs)])


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
