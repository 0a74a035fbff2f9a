"""Read the bytes of a chunk of samples: locate them in the index, together, then read them one by one or by ranges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise, repeat
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...dataset.open_files import OpenFiles
from ...errors import FormatError
from ...format.index.locations import SampleLocations, SampleLocator, locate_together
from ...format.nv_meta import outdated
from ...samples.building.sample_builder import RawSample
from ...storage import ReadableFile
from ..contract.stage import SKIPPED
from .dataset_source import DatasetSource
from .fetched_ranges import FetchedRanges, FetchQueue
from .shard_reads import COALESCED_BYTES, coalesce_ranges, read_coalesced
from .source import Source

_AHEAD_BYTES = 8 << 20  # announced to the storage at a time
_MIN_ANNOUNCED = 2  # samples; a single one is read at once
_AHEAD_GAP_BYTES = 128 << 10  # samples closer than this are announced as one range

_SHARD_BITS = 32  # a file number is the source's number, followed by 32 bits for the shard's
_SHARD_MASK = (1 << _SHARD_BITS) - 1

_raw = partial(tuple.__new__, RawSample)  # RawSample(…) takes twice as long


class OpenSources:
    """The sources of a reader in one process: where their samples are, with one search for all of them.

    Args:
        sources: The datasets.
        shards: The open shards of this process; None for a pool of its own.
        sparse: Numbers of the sources that an epoch reads a small part of.
        quarantined: Samples that are passed over as excluded ones are: source, and number in its index.
        first: Added to the numbers of the sources in raw samples, and in file numbers.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        shards: OpenFiles | None = None,
        sparse: Collection[int] = (),
        *,
        quarantined: Collection[tuple[int, int]] = (),
        first: tuple[int, int] = (0, 0),
    ) -> None:
        self._sources = cast("Sequence[DatasetSource]", sources)  # joins have a class of their own
        self._shards = OpenFiles() if shards is None else shards
        self._sparse = sparse
        self._first_numbers = first
        sizes = np.array([len(source.turns) for source in sources], dtype=np.int64)
        self._first = np.cumsum(sizes) - sizes  # number of each source's first sample, counted over all sources
        # A source's samples are in ranges of its index, one for each shard: note by how much each range is shifted.
        ranges = [source.turns.ranges for source in sources]
        self._begin = np.concatenate([first + begin for first, (begin, _) in zip(self._first, ranges, strict=True)])
        start = np.concatenate([start for _, start in ranges])
        self._shift = start - self._begin
        self._filters = {
            row: source.selection.filter for row, source in enumerate(sources) if source.selection.filter is not None
        }
        # Excluded samples of all sources are one sorted array: a stride keeps the sources apart.
        excluded = [source.turns.excluded for source in sources]
        lasts = [int(some[-1]) for some in excluded if len(some)] + [kept.last for kept in self._filters.values()]
        lasts += [index for _, index in quarantined]
        self._stride = 1 + max([int(start.max(initial=0) + sizes.max(initial=0)), *lasts])
        self._excluded = np.concatenate([some + row * self._stride for row, some in enumerate(excluded)])
        if quarantined:
            added = [row * self._stride + index for row, index in quarantined]
            self._excluded = np.union1d(self._excluded, np.array(added, dtype=np.int64))

    def index_numbers(self, source: IntArray, sample: IntArray) -> IntArray:
        """Return the numbers in the indexes of some samples; all arrays have shape (n,)."""
        position = self._first[source] + sample
        row = self._begin.searchsorted(position, side="right") - 1
        numbers: IntArray = position + self._shift[row]
        if self._filters:
            for source_number in self._filters.keys() & set(source.tolist()):
                filtered = np.flatnonzero(source == source_number)
                numbers[filtered] = self._filters[source_number].numbers(numbers[filtered])
        return numbers

    def index_number(self, source: int, sample: int) -> int:
        position = int(self._first[source]) + sample
        index = position + int(self._shift[int(self._begin.searchsorted(position, side="right")) - 1])
        kept = self._filters.get(source)
        return index if kept is None else int(kept.numbers(np.array([index]))[0])

    def excluded(self, source: IntArray, index: IntArray) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the excluded samples, by their numbers in the indexes; None if no sample is excluded."""
        if not len(self._excluded):
            return None
        name = source * self._stride + index
        row = np.minimum(self._excluded.searchsorted(name), len(self._excluded) - 1)
        is_excluded: npt.NDArray[np.bool_] = self._excluded[row] == name
        return is_excluded if is_excluded.any() else None

    def chunk(self, source: IntArray, index: IntArray, excluded: npt.NDArray[np.bool_] | None) -> SampleChunk:
        """Return a chunk of samples; see :class:`SampleChunk` for the arguments."""
        return SampleChunk(
            self._sources, self._shards, source, index, excluded, sparse=self._sparse, first=self._first_numbers
        )


class SampleChunk:
    """Samples that are located together, in the order in which they are yielded.

    Args:
        source: Shape (n,): number of each sample's source.
        index: Shape (n,): number of the sample in the index of its source.
        excluded: Shape (n,): True for samples that the split excludes; None if it excludes no sample.
        others: As for :class:`OpenSources`.

    Attributes:
        size_bytes: Shape (n,): the bytes of each sample; -1 if they are not one range.
    """

    def __init__(
        self,
        sources: Sequence[DatasetSource],
        shards: OpenFiles,
        source: IntArray,
        index: IntArray,
        excluded: npt.NDArray[np.bool_] | None = None,
        *,
        sparse: Collection[int] = (),
        first: tuple[int, int] = (0, 0),
    ) -> None:
        self._sources = sources
        self._shards = shards
        self._sparse = sparse
        self._first_source, self._first_file = first
        self._source = source
        self._excluded = excluded
        self._found, self._place = _locate(sources, source, index)
        self._shard, self._start, self._size = (
            np.asarray(column, np.int64) if self._place is None else np.array(column, np.int64)[self._place]
            for column in (self._found.shard, self._found.start, self._found.size_bytes)
        )
        self._file = ((source + self._first_file) << _SHARD_BITS) + self._shard  # file numbers
        self.size_bytes = self._size
        self._fetched: FetchedRanges | None = None

    def fetch(self, queue: FetchQueue) -> FetchedRanges | None:
        """Return the ranges of the samples that are in object stores, which the queue is to fetch."""
        is_remote = np.array([source.members[0].folder.is_fetched for source in self._sources])[self._source]
        wanted = is_remote & (self._size >= 0)
        if self._excluded is not None:
            wanted &= ~self._excluded
        if wanted.any():
            self._fetched = FetchedRanges(
                queue, self._file, self._start, self._size, missing=wanted, open_file=self._open
            )
        return self._fetched

    def read(self, positions: Sequence[int], begin: Callable[[int], Any]) -> Iterator[tuple[Any, int]]:
        """Return an iterator over the samples with their positions; :data:`SKIPPED` for excluded samples.

        Args:
            positions: The samples' positions in their lane.
            begin: Called with the position of a sample before it is read, where samples are read one by one; with the
                first position before a coalesced read.
        """
        return self.read_parts([(positions, begin)])[0]

    def read_parts(
        self,
        parts: Sequence[tuple[Sequence[int], Callable[[int], Any]]],
        *,
        coalesced_bytes: int = COALESCED_BYTES,
    ) -> list[Iterator[tuple[RawSample | Any, int]]]:
        """Return an iterator over each of several parts of the chunk, which follow one another, as :meth:`read` does.

        Args:
            parts: For each part, the positions of its samples, and the function that is called with them.
        """
        contents: list[bytes] | None = None
        first_positions, begin_first = parts[0]
        if self._excluded is None and self._fetched is None:
            contents = read_coalesced(
                self._file,
                self._start,
                self._size,
                open_file=self._open,
                begin=partial(begin_first, first_positions[0]),
                max_bytes=coalesced_bytes,
            )
        columns = [iter(column) for column in self._columns()]
        if contents is not None:
            # Functions in C make a raw sample when it is its turn: a chunk of them would not fit into the cache.
            make: Any = _raw if self._found.is_one_part_each() else self._made
            rows = zip(*columns, contents, strict=True)
            if len(parts) == 1:
                return [zip(map(make, rows), first_positions, strict=True)]
            # A tuple for each sample: the samples that come next are of other parts, and each list costs a cache miss.
            return [zip(map(make, [*islice(rows, len(some))]), some, strict=True) for some, _ in parts]
        # Those of object stores are being fetched.
        announced = len(self._source)
        if announced >= _MIN_ANNOUNCED and self._fetched is None:
            announced = self._announce(0, announced)
        chunks = []
        first = 0
        for positions, begin in parts:
            values = [list(islice(column, len(positions))) for column in columns]
            chunks.append(self._one_by_one(first, positions, begin, values, announced))
            first += len(positions)
        return chunks

    def _columns(self) -> tuple[Iterable[Any], ...]:
        """Return the columns source, number in the index, shard, key, and part.

        The last is the name of the sample's part if it has one, whatever others of the chunk have; else the row in
        ``_found``. Few columns: each additional list costs a cache miss per sample.
        """
        locations, source, shard = self._found, self._source.tolist(), self._shard.tolist()
        first = self._first_source
        parts: Any = locations.part_name
        if not locations.is_one_part_each():
            rows_of_parts = pairwise(locations.first_part)
            parts = [parts[begin] if end - begin == 1 else row for row, (begin, end) in enumerate(rows_of_parts)]
        # All samples are of one source, and in the order of the locations.
        if self._place is None:
            names = self._sources[source[0]].shard_names
            return (
                repeat(source[0] + first, len(source)),
                locations.sample,
                map(names.__getitem__, shard),
                locations.key,
                parts,
            )
        shards = [self._sources[origin].shard_names[at] for origin, at in zip(source, shard, strict=True)]
        rows = self._place.tolist()
        sample, key, part = ([column[row] for row in rows] for column in (locations.sample, locations.key, parts))
        return (self._source + first).tolist() if first else source, sample, shards, key, part

    def _made(self, row: tuple[Any, ...]) -> RawSample:
        """Return a raw sample from its columns and the bytes of its range, as ``RawSample`` defines it."""
        part, data = row[4:]
        if type(part) is str:
            return _raw(row)
        # The bytes of several parts are cut out of the range.
        cuts = self._found
        parts = range(cuts.first_part[part], cuts.first_part[part + 1])
        cut = {cuts.part_name[each]: data[cuts.part_start[each] : cuts.part_stop[each]] for each in parts}
        return _raw((*row[:4], None, cut))

    def _one_by_one(
        self,
        first: int,
        positions: Sequence[int],
        begin: Callable[[int], Any],
        columns: list[list[Any]],
        announced: int,
    ) -> Iterator[tuple[RawSample | Any, int]]:
        """Yield the samples of a part.

        Args:
            begin: Called with each.
        """
        # Step through the columns of the part; its reads are announced to the storage some MiB ahead.
        stop = first + len(positions)
        rows = zip(
            positions,
            [False] * len(positions) if self._excluded is None else self._excluded[first:stop].tolist(),
            self._file[first:stop].tolist(),
            self._start[first:stop].tolist(),
            self._size[first:stop].tolist(),
            *columns,
            strict=True,
        )
        find, fetched = self._shards.find, self._fetched
        done = first
        while done < stop:
            ahead = min(announced, stop) if done < announced else self._announce(done, stop)
            for position, is_excluded, name, start, size, source, index, shard, key, part in islice(rows, ahead - done):
                row = done
                done += 1
                if is_excluded:
                    yield SKIPPED, position
                    continue
                # Note the position before the read, so that a crash report names the sample.
                begin(position)
                if size < 0:
                    # The parts are too far apart for one read.
                    dataset_source, file = self._sources[source - self._first_source], find(name) or self._open(name)
                    parts = dataset_source.folder.stored_parts(file, index, dataset_source.recipe.builder.part_filter)
                    yield _raw((source, index, shard, key, None, parts)), position
                    continue
                # Take the bytes that were fetched ahead, or read them now.
                if fetched is not None and fetched.has(row):
                    data = fetched.take(row, size)
                else:
                    data = (find(name) or self._open(name)).read_at(start, size)
                if len(data) != size:
                    raise self._cut(name, start, size, len(data))
                yield self._made((source, index, shard, key, part, data)), position

    def _open(self, name: int) -> ReadableFile:
        """Return the shard of a file number; open it if necessary."""
        file = self._shards.find(name)
        if file is None:
            source_number = (name >> _SHARD_BITS) - self._first_file
            dataset = self._sources[source_number].folder
            file = self._shards.add(name, dataset.open_shard(dataset.index.shards[name & _SHARD_MASK]))
            if source_number in self._sparse:
                file.expect_few()
        return file

    def _announce(self, row: int, stop: int) -> int:
        """Announce the next reads to the storage, in some rows; return the row at which to announce more."""
        # Announce up to so many bytes, neighbours as one range.
        ahead = np.cumsum(np.maximum(self._size[row:stop], 0))
        stop = min(stop, row + 1 + int(np.searchsorted(ahead, _AHEAD_BYTES)))
        rows = slice(row, stop)
        size = np.maximum(self._size[rows], 0)
        _, ranges = coalesce_ranges(self._file[rows], self._start[rows], size, gap_bytes=_AHEAD_GAP_BYTES)
        for name, start, size_bytes in zip(*(column.tolist() for column in ranges), strict=True):
            file = self._shards.find(name)
            if file is not None:  # a shard that is not open yet is opened and checked when its first sample is read
                file.expect(start, size_bytes)
        return stop

    def _cut(self, name: int, start: int, size: int, actual: int) -> FormatError:
        source = self._sources[(name >> _SHARD_BITS) - self._first_file]
        shard = source.folder.storage.path(source.shard_names[name & _SHARD_MASK])
        return outdated(f"a sample has {size} bytes in the index, the shard ends after {actual} of them", shard, start)


def _locate(
    sources: Sequence[DatasetSource], source: IntArray, index: IntArray
) -> tuple[SampleLocations, IntArray | None]:
    """Locate all samples, source by source; also return each sample's row in the result, or None for the same row."""
    # The samples of a single source keep their order.
    if (source == source[0]).all():
        return sources[int(source[0])].locate(index), None
    # Group the samples by source: each source is searched once.
    order = np.argsort(source, kind="stable")
    grouped, numbers = source[order], index[order]
    edges = [0, *(np.flatnonzero(grouped[1:] != grouped[:-1]) + 1).tolist(), len(source)]
    groups = [
        (sources[source_number].locate, numbers[begin:end])
        for (begin, end), source_number in zip(pairwise(edges), grouped[edges[:-1]].tolist(), strict=True)
    ]
    # Locate all groups together where their indexes allow it, else one group after the other.
    locations = None
    if all(isinstance(locate, SampleLocator) for locate, _ in groups):
        locations = locate_together(cast("list[tuple[SampleLocator, IntArray]]", groups))
    if locations is None:
        locations = SampleLocations()
        for locate, some in groups:
            locate(some, locations)
    # The locations are in the order of the groups: note the row of each sample.
    rows = np.empty(len(order), np.int64)
    rows[order] = np.arange(len(order))
    return locations, rows
