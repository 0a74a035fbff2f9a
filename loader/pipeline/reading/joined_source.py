"""Several datasets joined row by row, as a source; and the reader of its rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...cached_property import cached_property
from ...dataset.join import JoinedDataset
from ...dataset.open_files import OpenFiles
from ...dataset.selection import Selection
from ...dataset.turns import Turns
from ...errors import EmptyDatasetError, plural
from ...format.documents.providers import LoadRequest
from ...samples.building.sample_builder import RawSample
from ..contract.stage import SKIPPED
from .dataset_source import DatasetSource
from .recipe import Recipe, SourceStores
from .sample_chunk import OpenSources, SampleChunk
from .shard_reads import ShardPool
from .source import RawRow, Source


@dataclass(frozen=True, kw_only=True, eq=False)
class JoinedSource(Source):
    """Rows of samples, one of each member.

    Args:
        members: The datasets; the first is the primary one.
        names: Argument names of the joiner; None if it takes the members in order.
        open_rows: Returns the members' sample numbers, shape (rows, members); -1 for a missing sample.
        joiner: Joins the samples of a row: ``joiner(*samples)``, or by name; None for a missing sample.
    """

    request: LoadRequest
    place: str
    members: tuple[DatasetSource, ...]
    names: tuple[str, ...] | None
    open_rows: Callable[[], IntArray]
    joiner: Callable[..., Any]

    def __post_init__(self) -> None:
        for member in self.members:
            member.begin_without("")  # rows name samples, and were prepared without excluded ones

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def folder(self) -> JoinedDataset:  # type: ignore[override] # read only
        """The opened members, joined; the rows are memory-mapped."""
        rows = self.open_rows()  # first: its errors name the join
        members = tuple(member.folder for member in self.members)
        return JoinedDataset(members, self.names, rows, file=self.request.ref.path, place=self.place)

    @property
    def samples(self) -> int:
        """Number of rows in the subset.

        Raises:
            EmptyDatasetError: The source has no samples.
        """
        samples = len(self.selection)
        if not samples:
            raise EmptyDatasetError("this join has no rows", at=self.folder.path, hint="check the keys that it joins")
        return samples

    @cached_property
    def selection(self) -> Selection:  # type: ignore[override] # read only
        """The rows that are loaded."""
        return Selection(self.folder, subset=self.request.subset)

    @cached_property
    def turns(self) -> Turns:  # type: ignore[override] # read only
        return Turns(self.selection)

    @cached_property
    def recipe(self) -> Recipe:  # type: ignore[override] # read only
        return _JoinRecipe(self)

    def identity(self) -> dict[str, Any]:
        start, stop = self.selection.bounds
        rows = self.folder.rows
        # The ends of the rows show a change in the members' shards; all rows would take long to read.
        head, tail = np.ascontiguousarray(rows[start : start + 1024]), np.ascontiguousarray(rows[-1024:])
        return {
            "path": self.folder.path,
            "samples": stop - start,
            "which": zlib.crc32(
                np.array([start, stop]).tobytes(), zlib.crc32(tail.tobytes(), zlib.crc32(head.tobytes()))
            ),
            "members": [member.identity() for member in self.members],
        }

    def describe(self) -> str:
        joined = plural(len(self.members), "dataset")
        return f"{self.request.ref.path}: {self.place}, {joined} joined: {plural(len(self.turns), 'sample')}"


class _JoinRecipe(Recipe):
    """The recipes of the members, and the joiner."""

    def __init__(self, source: JoinedSource) -> None:
        self.members = tuple(member.recipe for member in source.members)
        self._names = source.names
        self._joiner = source.joiner
        self._aux = source.request.aux
        self.decoder = self.members[0].decoder

    @property
    def stores(self) -> SourceStores:
        return SourceStores(aux_refs=self._aux, decoder=self.decoder)

    def build(self, raw: RawRow, restore_key: tuple[Any, ...]) -> Any:
        samples = [
            None if raw_member is None else member.build(raw_member, restore_key)
            for member, raw_member in zip(self.members, raw.members, strict=True)
        ]
        if self._names is None:
            return self._joiner(*samples)
        return self._joiner(**dict(zip(self._names, samples, strict=True)))

    def named(self, raw: RawRow) -> dict[str, Any]:
        """Return a placeholder of the key, since the joiner determines it, and the sources of all members."""
        pairs = zip(self.members, raw.members, strict=True)
        sources = (member.named(raw_member)["__sources__"] for member, raw_member in pairs if raw_member is not None)
        return {"__key__": "/", "__sources__": tuple(chain.from_iterable(sources))}


class OpenJoins(OpenSources):
    """The sources of a reader in one process, at least one of them a join.

    Args:
        sparse: As in :class:`.OpenSources`; of a join for its members, too.
        **options: As for :class:`.OpenSources`; from ``first`` on are as many numbers as sources and members.
    """

    def __init__(
        self, sources: Sequence[Source], shards: OpenFiles, sparse: Collection[int] = (), **options: Any
    ) -> None:
        super().__init__(sources, shards, **options)
        self._joins = {row: source for row, source in enumerate(sources) if isinstance(source, JoinedSource)}
        self._first_member: dict[int, int] = {}  # of each join
        # Members follow the sources. The entry of a join itself is never read.
        all_sources, all_sparse = [*self._sources], set(sparse)
        for row, join in self._joins.items():
            self._first_member[row] = len(all_sources)
            all_sources.extend(join.members)
            if row in sparse:
                all_sparse.update(range(self._first_member[row], len(all_sources)))
        self._sources, self._sparse = all_sources, all_sparse

    def chunk(self, source: IntArray, index: IntArray, excluded: npt.NDArray[np.bool_] | None) -> SampleChunk:
        rows, members, sources, indexes = self._expanded(source, index)
        return _RowChunk(
            self._sources,
            self._shards,
            sources,
            indexes,
            None if excluded is None else excluded[rows],
            sparse=self._sparse,
            first=self._first_numbers,
            joins=self._joins,
            numbers=(source, index),
            read=(rows, members),
        )

    def _expanded(self, source: IntArray, index: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Return the samples to read, as columns: row, member within its join, source, number in the index."""
        # Samples of other sources are rows of their own.
        is_join = np.isin(source, list(self._joins))
        rows = [np.flatnonzero(~is_join)]
        members = [np.zeros_like(rows[0])]
        sources, indexes = [source[rows[0]]], [index[rows[0]]]
        # Rows of joins expand to their members, without the missing ones.
        for source_number, join in self._joins.items():
            rows_of_join = np.flatnonzero(source == source_number)
            mapped = join.folder.numbers(index[rows_of_join])
            row, member = np.nonzero(mapped >= 0)
            rows.append(rows_of_join[row])
            members.append(member)
            sources.append(self._first_member[source_number] + member)
            indexes.append(mapped[row, member])
        # Return to the order of the rows, and of the members in each row.
        order = np.argsort(np.concatenate(rows), kind="stable")
        return tuple(np.concatenate(columns)[order] for columns in (rows, members, sources, indexes))  # type: ignore[return-value] # four


class _RowChunk(SampleChunk):
    """Rows of joins, mixed with samples of other sources, in the order in which they are yielded.

    Args:
        samples: The m samples that are read, as in :class:`SampleChunk`.
        joins: Number of a join → the join.
        numbers: Two arrays (n,): the source of each row, and its number there.
        read: Two arrays (m,): the row of each sample that is read, and its member within the join.
        options: The other arguments of :class:`SampleChunk`.
    """

    def __init__(
        self,
        *samples: Any,
        joins: Mapping[int, JoinedSource],
        numbers: tuple[IntArray, IntArray],
        read: tuple[IntArray, IntArray],
        **options: Any,
    ) -> None:
        super().__init__(*samples, **options)
        self._joins = joins
        self._row_sources, self._row_numbers = numbers
        self._rows, self._members = read
        # Shape (n,): the bytes of each row, as far as they are known.
        known = np.maximum(self.size_bytes, 0)
        self.size_bytes = np.bincount(self._rows, known, minlength=len(self._row_sources)).astype(np.int64)

    def read(self, positions: Sequence[int], begin: Callable[[int], Any]) -> Iterator[tuple[Any, int]]:
        """Yield raw samples and rows with their positions; :data:`SKIPPED` for excluded ones."""
        # The chunk yields the members of a row one after the other; a sample of another source is a row of its own.
        chunk = super().read([positions[row] for row in self._rows.tolist()], begin)
        ends = np.searchsorted(self._rows, np.arange(len(self._row_sources)), side="right").tolist()
        places, done = self._members.tolist(), 0
        for row, (source_number, position) in enumerate(zip(self._row_sources.tolist(), positions, strict=True)):
            if source_number not in self._joins:
                yield next(chunk)
                done += 1
                continue
            joined: list[RawSample | Any] = [None] * len(self._joins[source_number].members)
            while done < ends[row]:
                joined[places[done]] = next(chunk)[0]
                done += 1
            if any(raw_member is SKIPPED for raw_member in joined):  # then all members are
                yield SKIPPED, position
            else:
                yield RawRow(source_number + self._first_source, int(self._row_numbers[row]), tuple(joined)), position


def open_sources(
    sources: Sequence[Source],
    pool: ShardPool,
    sparse: Collection[int],
    *,
    quarantined: Collection[tuple[int, int]] = (),
    first_source: int = 0,
) -> OpenSources:
    """Open the sources of a reader; for the arguments see :class:`.OpenSources`."""
    # Files of the members of joins need numbers that no other reader uses.
    joins = [source for source in sources if isinstance(source, JoinedSource)]
    first, kind = first_source, OpenJoins if joins else OpenSources
    if joins:
        first = pool.reserve(len(sources) + sum(len(join.members) for join in joins))
    return kind(sources, pool.shards, sparse, quarantined=quarantined, first=(first_source, first))
