"""Merge sorted runs of hashes into the table that finds keys.

The hash is written to disk, so it is the same on every machine and in every version. A key is read as little-endian
64-bit words, the last one padded with zeros, and each word is mixed in by the finaliser of splitmix64 (Steele, Lea,
Flood 2014). The hash is not cryptographic: chosen keys may collide, so a look-up compares the key itself, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .npy_column import ColumnReader

_ROWS_AT_ONCE = 1 << 20


Append = Callable[[npt.NDArray[np.generic]], object]  # append values to a column


class RunWriter:
    """Collects the hashes of shards in few long runs, because a merge reads a piece of every run for every range.

    Args:
        rows_at_once: Smallest number of rows of a run, except for the last one.
    """

    def __init__(self, hashes: Append, samples: Append, *, rows_at_once: int = _ROWS_AT_ONCE) -> None:
        self.ends: list[int] = []
        self._append = hashes, samples
        self._rows_at_once = rows_at_once
        self._pieces: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]] = []
        self._rows = 0  # number of rows of the pieces

    def add(self, hashes: npt.NDArray[np.uint64], samples: npt.NDArray[np.uint64]) -> None:
        """Add the hashes of the next shard; the samples of equal hashes ascend."""
        # A copy: the hashes of a stored scan are a view that would keep the bytes of the whole scan in memory.
        self._pieces.append((hashes.copy(), samples))
        self._rows += len(hashes)
        if self._rows >= self._rows_at_once:
            self.finish_run()

    def add_run(self, pieces: Iterable[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]) -> None:
        """Write a run that is already sorted, in pieces."""
        self.finish_run()
        end = self.ends[-1] if self.ends else 0
        for hashes, samples in pieces:
            for append, values in zip(self._append, (hashes, samples), strict=True):
                append(values)
            end += len(hashes)
        self.ends.append(end)

    def finish_run(self) -> None:
        """Write the collected hashes as a run."""
        if self._rows:
            hashes, samples = (np.concatenate(pieces) for pieces in zip(*self._pieces, strict=True))
            order = np.argsort(hashes, kind="stable")
            for append, values in zip(self._append, (hashes, samples), strict=True):
                append(values[order])
            self.ends.append((self.ends[-1] if self.ends else 0) + self._rows)
        self._pieces, self._rows = [], 0


def merge_runs(
    hashes: npt.NDArray[np.uint64] | ColumnReader,
    samples: npt.NDArray[np.uint64] | ColumnReader,
    ends: Sequence[int],
    *,
    rows_at_once: int = _ROWS_AT_ONCE,
) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
    """Yield the hashes of all runs in ascending order, with their samples, in pieces.

    Equal hashes are in one piece, and their samples ascend.

    Args:
        hashes: Sorted runs of hashes, concatenated.
        samples: The sample of each hash.
        ends: End of each run.
        rows_at_once: Number of rows of a piece, about.
    """
    # Divide the range of hashes evenly, and find the rows of each piece in each run.
    pieces = max(1, -(-len(hashes) // rows_at_once))
    edges = np.array([(1 << 64) * piece // pieces for piece in range(1, pieces)], dtype=np.uint64)
    starts = [0, *ends][:-1]
    cuts = []  # for each run, the starts of its pieces and the end of the last one
    for start, end in zip(starts, ends, strict=True):
        cuts.append([start, *(start + np.searchsorted(hashes[start:end], edges)).tolist(), end])
    # Sort the pieces one by one.
    for piece in range(pieces):
        some = np.concatenate([hashes[cut[piece] : cut[piece + 1]] for cut in cuts] or [hashes[:0]])
        of_some = np.concatenate([samples[cut[piece] : cut[piece + 1]] for cut in cuts] or [samples[:0]])
        order = np.argsort(some, kind="stable")
        if len(equal_neighbours(some[order])):
            order = np.lexsort((of_some, some))
        yield some[order], of_some[order]


def equal_neighbours(hashes: npt.NDArray[np.uint64]) -> list[tuple[int, int]]:
    """Return the half-open ranges of rows that share a hash, for rows in ascending order."""
    same = hashes[1:] == hashes[:-1]
    if not same.any():
        return []
    edges = np.flatnonzero(np.diff(same, prepend=False, append=False))
    return [(int(start), int(stop) + 1) for start, stop in pairwise(edges.tolist())][::2]
