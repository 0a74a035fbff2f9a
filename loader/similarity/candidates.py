"""Pairs of samples that may be similar, which are then compared exactly; and the groups that pairs join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..lazy_torch import torch
from .vectors import Vectors

Pairs = tuple[IntArray, IntArray]
"""Two arrays of one shape: positions of samples among the compared ones, the first less than the second."""

OnProgress = Callable[[int, int], None]
"""Called with the number of samples that are compared with all others, and of all."""

_SLACK = 1e-4  # of products in float32 of vectors of length 1
_BLOCK = 4096  # directions of a block; products of two blocks take 64 MiB
_SAMPLED = 4096  # directions from which the rotation and the size of heads follow
_INDEX_PART = 250_000  # samples of an index, which one thread builds, so that it is the same every time
_INDEX_NEIGHBOURS = 32  # candidates of each sample in each part
_LARGE_RUN = 64  # equal bands of more samples are checked for pairs that are joined already


class Components:
    """Groups of samples that pairs join: each sample points to one with a lower position, or to itself."""

    def __init__(self, samples: int) -> None:
        self._parent = np.arange(samples)

    def roots(self, samples: IntArray) -> IntArray:
        """Return the first sample of the group of each sample."""
        root: IntArray = self._parent[samples]
        while True:
            above = self._parent[root]
            if np.array_equal(above, root):
                return root
            self._parent[samples] = root = above

    def apart(self, left: IntArray, right: IntArray) -> Pairs:
        """Return the pairs whose samples are in different groups."""
        differ = self.roots(left) != self.roots(right)
        return left[differ], right[differ]

    def join(self, left: IntArray, right: IntArray) -> None:
        """Join the groups of the samples of each pair."""
        while len(left):
            first, second = self.roots(left), self.roots(right)
            low, high = np.minimum(first, second), np.maximum(first, second)
            differ = low != high
            left, right = low[differ], high[differ]
            np.minimum.at(self._parent, right, left)

    def groups(self) -> list[IntArray]:
        """Return the positions of groups of several samples, ascending: the largest first, then by the first sample."""
        roots = self.roots(np.arange(len(self._parent)))
        order = np.argsort(roots, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(roots[order])) + 1) if len(order) else []
        return sorted((part for part in parts if len(part) > 1), key=lambda part: (-len(part), int(part[0])))


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """The first elements of rotated directions, and the length of the rest as one element more.

    The product of two heads is at least the product of the directions, by the inequality of Cauchy and Schwarz, and
    takes a fraction of the time. The rotation puts the elements first that differ most.

    Attributes:
        vectors: The vectors.
        rotation: Shape (elements, head); None if heads are the directions.
    """

    vectors: Vectors
    rotation: npt.NDArray[np.float32] | None

    @classmethod
    def chosen(cls, vectors: Vectors, rows: IntArray, least: float) -> Heads:
        """Return the heads that make the search for products of at least ``least`` fastest, judged by some samples."""
        sampled = rows[:: -(-len(rows) // _SAMPLED)] if len(rows) else rows
        directions = vectors.directions(sampled)
        elements = directions.shape[1]
        _, axes = np.linalg.eigh((directions.T @ directions).astype(np.float64))
        rotation = np.ascontiguousarray(axes[:, ::-1]).astype(np.float32)
        rotated = directions @ rotation
        costs = {}
        for size in (size for size in (16, 32, 64, 128, 256, elements) if size <= elements):
            head = _with_rest(rotated[:, :size])
            passing = np.count_nonzero(head @ head.T >= least - _SLACK) - len(head)
            # Time of a pair: the product, the comparison, and where it passes, the exact similarity.
            costs[size] = 0.025 * size + 0.5 + 2 * elements * passing / max(1, len(head)) ** 2
        best = min(costs, key=costs.__getitem__)
        return cls(vectors, None if best == elements else rotation[:, :best])

    def of(self, rows: IntArray) -> npt.NDArray[np.float32]:
        """Return the heads of samples, shape (n · hashes, head + 1)."""
        directions = self.vectors.directions(rows)
        return directions if self.rotation is None else _with_rest(directions @ self.rotation)


def _with_rest(heads: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    rest = np.sqrt(np.maximum(0, 1 - np.einsum("ij,ij->i", heads, heads)))
    return np.concatenate([heads, rest[:, None]], axis=1)


def pairs_of_blocks(
    vectors: Vectors,
    rows: IntArray,
    threshold: float,
    *,
    device: str | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Pairs]:
    """Yield all pairs of samples whose similarity may reach a threshold, found by products of blocks of vectors.

    Args:
        rows: Numbers of the samples to compare.
        device: Device on which torch computes the products; None for numpy.
    """
    least = vectors.least_product(threshold) - _SLACK
    heads = Heads.chosen(vectors, rows, vectors.least_product(threshold))
    step = _BLOCK // vectors.hashes
    parts = [heads.of(rows[at : at + step]) for at in range(0, len(rows), step)]
    search = _search_on(device, parts, least)
    for first in range(len(parts)):
        for second in range(first, len(parts)):
            left, right = search(first, second)
            left, right = left // vectors.hashes + first * step, right // vectors.hashes + second * step
            ordered = left < right
            if ordered.any():
                yield left[ordered], right[ordered]
        if on_progress is not None:
            on_progress(min(len(rows), (first + 1) * step), len(rows))


def _search_on(device: str | None, parts: list[npt.NDArray[np.float32]], least: float) -> Callable[[int, int], Pairs]:
    """Return a function of two blocks that finds the rows whose product is large enough."""
    if device is not None:
        moved = [torch.from_numpy(part).to(device) for part in parts]

        def on_device(first: int, second: int) -> Pairs:
            left, right = torch.nonzero(moved[first] @ moved[second].T >= least, as_tuple=True)
            return left.cpu().numpy(), right.cpu().numpy()

        return on_device
    products = np.empty((max(map(len, parts), default=0),) * 2, np.float32)

    def in_numpy(first: int, second: int) -> Pairs:
        left, right = parts[first], parts[second]
        out = products.ravel()[: len(left) * len(right)].reshape(len(left), len(right))
        np.matmul(left, right.T, out=out)
        if out.max(initial=-1) < least:  # of most blocks: one pass instead of three
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.nonzero(out >= least)  # type: ignore[return-value] # of two dimensions

    return in_numpy


def pairs_of_bands(
    vectors: Vectors, rows: IntArray, threshold: float, components: Components, *, on_progress: OnProgress | None = None
) -> Iterator[Pairs]:
    """Yield all pairs of MinHashes whose share of equal hashes may reach a threshold.

    If at most ``u`` hashes of two samples differ, and the hashes are divided into ``u + 1`` bands, one band is equal.
    Runs of samples that are joined already are omitted.
    """
    hashes = np.asarray(vectors.values if len(rows) == len(vectors.values) else vectors.values[rows])
    differing = int((1 - threshold) * hashes.shape[1] + 1e-9)
    bands = np.array_split(np.arange(hashes.shape[1]), min(hashes.shape[1], differing + 1))
    factors = np.random.default_rng(0).integers(1 << 63, size=hashes.shape[1], dtype=np.uint64) | np.uint64(1)
    for band, columns in enumerate(bands):
        codes = (hashes[:, columns] * factors[columns]).sum(axis=1, dtype=np.uint64)
        order = np.argsort(codes, kind="stable")
        run = np.concatenate([[0], np.cumsum(np.diff(codes[order]) != 0)]) if len(order) else order
        distance = 1
        # Pairs of neighbours in the runs of equal codes, then of second neighbours, and so on.
        while len(order) > distance:
            equal = np.flatnonzero(run[distance:] == run[:-distance])
            if not len(equal):
                break
            left, right = order[equal], order[equal + distance]
            yield np.minimum(left, right), np.maximum(left, right)
            if distance == 1 or distance % _LARGE_RUN == 0:
                order, run = _unfinished(order, run, components)
            distance += 1
        if on_progress is not None:
            on_progress(len(rows) * (band + 1) // len(bands), len(rows))


def _unfinished(order: IntArray, run: IntArray, components: Components) -> Pairs:
    """Return the samples of runs that are in several groups, and their runs."""
    roots = components.roots(order)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(run) != 0]))
    several = np.minimum.reduceat(roots, starts) != np.maximum.reduceat(roots, starts)
    kept = np.repeat(several, np.diff(np.append(starts, len(run))))
    return order[kept], run[kept]


def pairs_of_index(
    vectors: Vectors, rows: IntArray, threshold: float, *, threads: int, on_progress: OnProgress | None = None
) -> Iterator[Pairs]:
    """Yield most pairs of samples whose similarity may reach a threshold, found by indexes of usearch.

    One thread builds each index of a part of the samples, so that the pairs are the same every time.
    """
    from usearch.index import Index

    # Build an index of each part.
    bits = vectors.metric == "hamming"
    least = vectors.least_product(threshold) - _SLACK
    parts = [rows[at : at + _INDEX_PART] for at in range(0, len(rows), _INDEX_PART)]
    form: dict[str, Any] = {"metric": "hamming", "dtype": "b1"} if bits else {"metric": "cos", "dtype": "f16"}
    elements = -(-vectors.bits // 8) * 8 if bits else vectors.values.shape[1]

    def entries(some: IntArray) -> npt.NDArray[Any]:
        values = np.asarray(vectors.values[some])
        return values.reshape(len(some) * vectors.hashes, -1)

    def build(some: IntArray) -> Any:
        index = Index(ndim=elements, **form)
        for start in range(0, len(some), _BLOCK):
            block = entries(some[start : start + _BLOCK])
            index.add(np.arange(len(block)) + start * vectors.hashes, block, threads=1)
        return index

    with ThreadPoolExecutor(threads) as pool:
        indexes = list(pool.map(build, parts))
    # Look each sample up in all of them.
    for start in range(0, len(rows), _BLOCK):
        block = entries(rows[start : start + _BLOCK])
        left = np.arange(len(block))[:, None] // vectors.hashes + start
        for part, index in enumerate(indexes):
            matches = index.search(block, min(_INDEX_NEIGHBOURS, len(index)), threads=threads)
            keys = matches.keys.reshape(len(block), -1).astype(np.int64)
            distances = matches.distances.reshape(keys.shape)
            near = distances <= ((1 - least) / 2 * vectors.bits if bits else 1 - least + 1e-3)  # of float16
            right = keys // vectors.hashes + part * _INDEX_PART
            near &= right != left
            low, high = np.minimum(left, right)[near], np.maximum(left, right)[near]
            if len(low):
                yield low, high
        if on_progress is not None:
            on_progress(min(len(rows), start + _BLOCK), len(rows))
