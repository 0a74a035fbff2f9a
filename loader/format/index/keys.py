"""The table that finds a sample by its key: hashes of all keys, sorted, and the sample each belongs to.

The hashes of some shards, a million at least, are sorted together (a run). The runs are merged by ranges of hash
values: hashes are spread evenly, so a range of a known share of them fits in memory whatever the size of the dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Appendable", "Column", "KeyRuns", "RunWriter", "equal_neighbours", "merge_runs"]

_ROWS_AT_ONCE = 1 << 20


class Column(Protocol):
    """An array of which pieces are taken: in memory, or in a file."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> npt.NDArray[np.uint64]: ...


@dataclass(slots=True)
class KeyRuns:
    """Sorted runs of hashes, laid behind each other."""

    hashes: Column  # (n,)
    samples: Column  # (n,)
    ends: Sequence[int] = field(default_factory=list)


class Appendable(Protocol):
    """Something that grows by arrays."""

    def append(self, values: npt.NDArray[np.generic], /) -> None: ...


class RunWriter:
    """Gathers the hashes of shards into few long runs: a merge reads a piece of every run for every range.

    Args:
        hashes: Takes the hashes of the runs.
        samples: Takes the samples they belong to.
        rows_at_once: The least number of rows of a run, except for the last one.
    """

    def __init__(self, hashes: Appendable, samples: Appendable, *, rows_at_once: int = _ROWS_AT_ONCE) -> None:
        self.ends: list[int] = []
        self._columns = (hashes, samples)
        self._rows_at_once = rows_at_once
        self._pieces: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]] = []
        self._rows = 0  # of the pieces

    def add(self, hashes: npt.NDArray[np.uint64], samples: npt.NDArray[np.uint64]) -> None:
        """Take the hashes of the next shard; where they are equal, the samples ascend."""
        self._pieces.append((hashes, samples))
        self._rows += len(hashes)
        if self._rows >= self._rows_at_once:
            self.finish_run()

    def add_run(self, pieces: Iterable[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]) -> None:
        """Write a run that is sorted already, in pieces."""
        self.finish_run()
        end = self.ends[-1] if self.ends else 0
        for hashes, samples in pieces:
            for column, values in zip(self._columns, (hashes, samples), strict=True):
                column.append(values)
            end += len(hashes)
        self.ends.append(end)

    def finish_run(self) -> None:
        """Write what was gathered."""
        if self._rows:
            hashes, samples = (np.concatenate(pieces) for pieces in zip(*self._pieces, strict=True))
            order = np.argsort(hashes, kind="stable")
            for column, values in zip(self._columns, (hashes, samples), strict=True):
                column.append(values[order])
            self.ends.append((self.ends[-1] if self.ends else 0) + self._rows)
        self._pieces, self._rows = [], 0


def merge_runs(
    runs: KeyRuns, *, rows_at_once: int = _ROWS_AT_ONCE
) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
    """Yield the hashes of all runs in ascending order, with their samples, in pieces.

    Equal hashes are never torn apart by the edge of a piece, and their samples ascend.
    """
    pieces = max(1, -(-len(runs.hashes) // rows_at_once))
    edges = np.array([(1 << 64) * piece // pieces for piece in range(1, pieces)], dtype=np.uint64)
    starts = [0, *runs.ends][:-1]
    cuts = []  # for each run: where each piece starts and the last one ends
    for start, end in zip(starts, runs.ends, strict=True):
        cuts.append([start, *(start + np.searchsorted(runs.hashes[start:end], edges)).tolist(), end])
    for piece in range(pieces):
        hashes = np.concatenate([runs.hashes[cut[piece] : cut[piece + 1]] for cut in cuts] or [runs.hashes[:0]])
        samples = np.concatenate([runs.samples[cut[piece] : cut[piece + 1]] for cut in cuts] or [runs.samples[:0]])
        order = np.argsort(hashes, kind="stable")
        if len(equal_neighbours(hashes[order])):
            order = np.lexsort((samples, hashes))
        yield hashes[order], samples[order]


def equal_neighbours(hashes: npt.NDArray[np.uint64]) -> list[tuple[int, int]]:
    """Give the half-open ranges of rows that share a hash, for rows in ascending order."""
    same = hashes[1:] == hashes[:-1]
    if not same.any():
        return []
    edges = np.flatnonzero(np.diff(same, prepend=False, append=False))
    return [(int(start), int(stop) + 1) for start, stop in pairwise(edges.tolist())][::2]
