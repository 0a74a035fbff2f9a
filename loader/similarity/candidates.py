"""Pairs of samples that may be similar, which are then compared exactly; and the groups that pairs join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from ..arrays import Components, IntArray
from ..lazy_torch import torch
from .vectors import Vectors

Pairs = tuple[IntArray, IntArray]
"""Two arrays of one shape: positions of samples among the compared ones, the first less than the second."""

OnProgress = Callable[[int, int], None]
"""Called with the number of samples that are compared with all others, and of all."""

_SLACK = 1e-4  # of products in float32 of vectors of length 1
_BLOCK = 2048  # directions of a block; products of two blocks take 16 MiB
_SAMPLED = 2048  # directions from which the rotation and the size of heads follow
_CELLS_OF_A_VECTOR = {"cosine": 3, "hamming": 12}  # bits that just reach their threshold are far apart
_TRAINING_VECTORS = 40  # of each cell, from which its centre follows
_TRAINING_STEPS = 5  # more move centres too little to matter
_LARGE_RUN = 64  # equal bands of more samples are checked for pairs that are joined already


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
            # Nanoseconds of a pair: the product, the comparison, and where it passes, the exact similarity.
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
    components: Components,
    *,
    threads: int = 1,
    device: str | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Pairs]:
    """Yield all pairs of samples whose similarity may reach a threshold, found by products of blocks of vectors.

    Args:
        rows: Numbers of the samples to compare.
        threads: Number of blocks that are searched at the same time.
        device: Device on which torch computes the products; None for numpy.
    """
    least = vectors.least_product(threshold)
    heads = Heads.chosen(vectors, rows, least)
    yield from _pairs_among(
        heads,
        rows,
        np.arange(len(rows)),
        least=least - _SLACK,
        components=components,
        threads=threads,
        device=device,
        on_progress=on_progress,
    )


def _pairs_among(
    heads: Heads,
    rows: IntArray,
    among: IntArray,
    *,
    least: float,
    components: Components,
    threads: int,
    device: str | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Pairs]:
    """Yield the pairs among the samples at some positions of rows, unless all samples of two blocks are joined."""
    hashes = heads.vectors.hashes
    step = _BLOCK // hashes
    blocks = [among[at : at + step] for at in range(0, len(among), step)]
    search = _search_on(device, [heads.of(rows[block]) for block in blocks], least, threads)
    with ThreadPoolExecutor(threads) as pool:
        for first, block in enumerate(blocks):
            for start in range(first, len(blocks), threads):
                seconds = [
                    second
                    for second in range(start, min(start + threads, len(blocks)))
                    if not components.are_joined(block, blocks[second])
                ]
                for second, (left, right) in zip(
                    seconds, pool.map(search, repeat(first), seconds, range(threads)), strict=True
                ):
                    left_samples, right_samples = block[left // hashes], blocks[second][right // hashes]
                    ordered = (left_samples < right_samples) | (first < second)
                    if ordered.any():
                        yield left_samples[ordered], right_samples[ordered]
            if on_progress is not None:
                on_progress(min(len(rows), (first + 1) * step), len(rows))


def _search_on(
    device: str | None, parts: list[npt.NDArray[np.float32]], least: float, threads: int
) -> Callable[[int, int, int], Pairs]:
    """Return a function of two blocks and a thread that finds the rows whose product is large enough."""
    if device is not None:
        moved = [torch.from_numpy(part).to(device) for part in parts]

        def on_device(first: int, second: int, _thread: int) -> Pairs:
            left, right = torch.nonzero(moved[first] @ moved[second].T >= least, as_tuple=True)
            return left.cpu().numpy(), right.cpu().numpy()

        return on_device
    products = np.empty((threads, max(map(len, parts), default=0) ** 2), np.float32)

    def in_numpy(first: int, second: int, thread: int) -> Pairs:
        left, right = parts[first], parts[second]
        out = products[thread, : len(left) * len(right)].reshape(len(left), len(right))
        np.matmul(left, right.T, out=out)
        if out.max(initial=-1) < least:  # of most blocks: one pass instead of three
            return np.empty(0, np.int64), np.empty(0, np.int64)
        large = np.flatnonzero(out >= least)  # ten times faster than the nonzero elements of two dimensions
        return large // len(right), large % len(right)

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
    factors = np.random.default_rng(0).integers(1 << 63, size=(hashes.shape[1],)).astype(np.uint64)
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


def pairs_of_cells(
    vectors: Vectors,
    rows: IntArray,
    threshold: float,
    components: Components,
    *,
    threads: int = 1,
    on_progress: OnProgress | None = None,
) -> Iterator[Pairs]:
    """Yield most pairs of samples whose similarity may reach a threshold: those that are in one cell.

    The cells are around centres that spherical k-means finds. A vector is in the cells of the few centres nearest to
    it, so that two similar vectors rarely have no cell in common.
    """
    # As many cells as make the search for the nearest centres and the search in cells equally long.
    least = vectors.least_product(threshold)
    heads = Heads.chosen(vectors, rows, least)
    cells_of_vector = _CELLS_OF_A_VECTOR[vectors.metric]
    count = max(cells_of_vector, round(cells_of_vector * (len(rows) * vectors.hashes / 2) ** 0.5))
    centres = _centres(vectors, rows, min(count, len(rows)))
    # Find the cells of each vector.
    cells = np.empty((len(rows) * vectors.hashes, min(cells_of_vector, len(centres))), np.int32)
    step = _BLOCK // vectors.hashes
    for start in range(0, len(rows), step):
        products = vectors.directions(rows[start : start + step]) @ centres.T
        nearest = np.argpartition(products, -cells.shape[1], axis=1)[:, -cells.shape[1] :]
        cells[start * vectors.hashes : start * vectors.hashes + len(nearest)] = nearest
    # Compare the samples of each cell.
    order = np.argsort(cells, axis=None, kind="stable")
    ends = np.cumsum(np.bincount(cells.ravel(), minlength=len(centres)))
    for cell, members in enumerate(np.split(order, ends[:-1])):
        among = np.unique(members // (cells.shape[1] * vectors.hashes))
        yield from _pairs_among(heads, rows, among, least=least - _SLACK, components=components, threads=threads)
        if on_progress is not None:
            on_progress(len(rows) * (cell + 1) // len(centres), len(rows))


def _centres(vectors: Vectors, rows: IntArray, count: int) -> npt.NDArray[np.float32]:
    """Return the centres of cells, shape (count, elements), by spherical k-means of some samples."""
    sampled = vectors.directions(rows[:: max(1, len(rows) // (count * _TRAINING_VECTORS))])
    centres = sampled[np.linspace(0, len(sampled) - 1, count).astype(np.int64)]
    for _ in range(_TRAINING_STEPS):
        blocks = (sampled[start : start + _BLOCK] for start in range(0, len(sampled), _BLOCK))
        nearest = np.concatenate([(block @ centres.T).argmax(axis=1) for block in blocks])
        # Move each centre to the mean of its vectors; one without vectors stays.
        sizes = np.bincount(nearest, minlength=count)
        starts = np.cumsum(sizes) - sizes
        means = np.add.reduceat(sampled[np.argsort(nearest, kind="stable")], starts[sizes > 0])
        lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", means, means), 1e-12))  # sums may cancel out
        centres[sizes > 0] = means / lengths[:, None]
    return centres
