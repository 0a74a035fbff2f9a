"""The samples of some positions where leaves may be joins: each row of a join is read as the samples of its members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .joined_leaf import JoinedLeaf
from .leaf import Integers, Leaf, RawSample, ShardLeaf
from .open_shards import OpenShards
from .sample_chunk import SampleChunk

__all__ = ["JoinedRows"]


class JoinedRows:
    """Reads rows of joins and samples of other leaves, in any mix.

    Args:
        leaves: The leaves.
        shards: The open shards of this process.
    """

    def __init__(self, leaves: Sequence[Leaf], shards: OpenShards) -> None:
        self._shards = shards
        self._joins: dict[int, JoinedLeaf] = {}
        self._first: dict[int, int] = {}  # number of a join → that of its first member
        members: list[ShardLeaf] = []
        for number, leaf in enumerate(leaves):
            if isinstance(leaf, JoinedLeaf):
                self._joins[number] = leaf
                self._first[number] = len(leaves) + len(members)
                members.extend(leaf.members)
        # What stands at the number of a join is never read.
        self._leaves = (*cast("Sequence[ShardLeaf]", leaves), *members)

    def read(
        self,
        positions: Sequence[int],
        leaf: Integers,
        index: Integers,
        excluded: npt.NDArray[np.bool_] | None,
        begin: Callable[[int], None],
    ) -> Iterator[tuple[RawSample | Any, int]]:
        """Yield samples, each with its position; arguments and errors are those of :class:`SampleChunk`."""
        if not self._joins:
            return SampleChunk(self._leaves, self._shards, leaf, index, excluded).read(positions, begin)
        return self._read_rows(positions, leaf, index, excluded, begin)

    def _read_rows(
        self,
        positions: Sequence[int],
        leaf: Integers,
        index: Integers,
        excluded: npt.NDArray[np.bool_] | None,
        begin: Callable[[int], None],
    ) -> Iterator[tuple[RawSample | Any, int]]:
        rows, members, leaves, indexes = self._expanded(leaf, index)
        chunk = SampleChunk(
            self._leaves, self._shards, leaves, indexes, None if excluded is None else excluded[rows]
        ).read([positions[row] for row in rows.tolist()], begin)
        ends = np.searchsorted(rows, np.arange(len(leaf)), side="right").tolist()
        places, done = members.tolist(), 0
        for row, (number, position) in enumerate(zip(leaf.tolist(), positions, strict=True)):
            if number not in self._joins:
                yield next(chunk)
                done += 1
                continue
            found: list[RawSample | None] = [None] * len(self._joins[number].members)
            while done < ends[row]:
                found[places[done]] = next(chunk)[0]
                done += 1
            yield (number, int(index[row]), "", "", tuple(found)), position

    def _expanded(self, leaf: Integers, index: Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """Give what is to be read: of which row, for which member of its join, of which leaf, and which sample."""
        is_join = np.isin(leaf, list(self._joins))
        rows = [np.flatnonzero(~is_join)]
        members = [np.zeros_like(rows[0])]
        leaves, indexes = [leaf[rows[0]]], [index[rows[0]]]
        for number, join in self._joins.items():
            own = np.flatnonzero(leaf == number)
            mapped = join.numbers(index[own])
            row, member = np.nonzero(mapped >= 0)
            rows.append(own[row])
            members.append(member)
            leaves.append(self._first[number] + member)
            indexes.append(mapped[row, member])
        order = np.argsort(np.concatenate(rows), kind="stable")
        return tuple(np.concatenate(columns)[order] for columns in (rows, members, leaves, indexes))  # type: ignore[return-value] # four
