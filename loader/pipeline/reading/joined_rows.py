"""The samples of some positions where leaves may be joins: each row of a join is read as the samples of its members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...samples.building.sample_builder import RawSample
from .joined_source import JoinedSource
from .open_shards import OpenShards
from .sample_chunk import SampleChunk
from .source import RawRow, ShardSource, Source

__all__ = ["JoinedRows"]


class JoinedRows:
    """Reads rows of joins and samples of other leaves, in any mix.

    Args:
        leaves: The leaves.
        shards: The open shards of this process.
    """

    def __init__(self, sources: Sequence[Source], shards: OpenShards) -> None:
        self._shards = shards
        self._joins: dict[int, JoinedSource] = {}
        self._first: dict[int, int] = {}  # number of a join → that of its first member
        members: list[ShardSource] = []
        for number, source in enumerate(sources):
            if isinstance(source, JoinedSource):
                self._joins[number] = source
                self._first[number] = len(sources) + len(members)
                members.extend(source.members)
        # What stands at the number of a join is never read.
        self._sources = (*cast("Sequence[ShardSource]", sources), *members)

    def read(
        self,
        positions: Sequence[int],
        source: IntArray,
        index: IntArray,
        excluded: npt.NDArray[np.bool_] | None,
        begin: Callable[[int], None],
    ) -> Iterator[tuple[Any, int]]:
        """Yield samples, each with its position; arguments and errors are those of :class:`SampleChunk`."""
        if not self._joins:
            return SampleChunk(self._sources, self._shards, source, index, excluded).read(positions, begin)
        return self._read_rows(positions, source, index, excluded, begin)

    def _read_rows(
        self,
        positions: Sequence[int],
        source: IntArray,
        index: IntArray,
        excluded: npt.NDArray[np.bool_] | None,
        begin: Callable[[int], None],
    ) -> Iterator[tuple[Any, int]]:
        rows, members, sources, indexes = self._expanded(source, index)
        chunk = SampleChunk(
            self._sources, self._shards, sources, indexes, None if excluded is None else excluded[rows]
        ).read([positions[row] for row in rows.tolist()], begin)
        ends = np.searchsorted(rows, np.arange(len(source)), side="right").tolist()
        places, done = members.tolist(), 0
        for row, (number, position) in enumerate(zip(source.tolist(), positions, strict=True)):
            if number not in self._joins:
                yield next(chunk)
                done += 1
                continue
            found: list[RawSample | None] = [None] * len(self._joins[number].members)
            while done < ends[row]:
                found[places[done]] = next(chunk)[0]
                done += 1
            yield RawRow(number, int(index[row]), tuple(found)), position

    def _expanded(self, source: IntArray, index: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Give what is to be read: of which row, for which member of its join, of which leaf, and which sample."""
        is_join = np.isin(source, list(self._joins))
        rows = [np.flatnonzero(~is_join)]
        members = [np.zeros_like(rows[0])]
        sources, indexes = [source[rows[0]]], [index[rows[0]]]
        for number, join in self._joins.items():
            own = np.flatnonzero(source == number)
            mapped = join.numbers(index[own])
            row, member = np.nonzero(mapped >= 0)
            rows.append(own[row])
            members.append(member)
            sources.append(self._first[number] + member)
            indexes.append(mapped[row, member])
        order = np.argsort(np.concatenate(rows), kind="stable")
        return tuple(np.concatenate(columns)[order] for columns in (rows, members, sources, indexes))  # type: ignore[return-value] # four
