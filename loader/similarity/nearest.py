"""The samples of a column that are most similar to a vector: exact, block by block, over columns of any size."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..errors import ConfigError
from ..format.columns.column import Column
from ..lazy_torch import torch
from .vectors import SimilarityArray, Vectors, vector_column, vectors_of

_BLOCK_BYTES = 1 << 19  # of floats: they stay in the cache of a core between conversion and product
_HASHES_AT_ONCE = 1 << 16
_SLACK = 1e-4  # of products of float32, which choose candidates; the exact similarity orders them


class Neighbour(NamedTuple):
    """A sample and its similarity to the query.

    Attributes:
        sample: Number of the sample.
        similarity: From 0 to 1.
    """

    sample: int
    similarity: float


def neighbours(column: Column, query: npt.ArrayLike, k: int = 10, *, chosen: IntArray | None = None) -> list[Neighbour]:
    """Return the most similar samples, the best first; of equal ones, the first in the dataset.

    Args:
        query: A vector, shape (length,).
        k: Most samples to return.
        chosen: Numbers of the samples to search; None for all. Samples without a vector take no part.

    Raises:
        ConfigError: The column has no vectors, or vectors of another length.
    """
    vectors, wanted = vectors_of(column), np.asarray(query)
    if wanted.shape != (column.record.length,):
        raise ConfigError(
            f"expected a vector of shape ({column.record.length},), found shape {wanted.shape}", at=column.name
        )
    rough = _rough_cosines(vectors, wanted) if vectors.metric == "cosine" else _of_hashes(vectors, wanted)
    rows = vectors.known_rows(chosen)
    if len(rows) > k:
        scores = rough[rows]
        limit = np.partition(scores, len(rows) - k)[len(rows) - k] - _SLACK
        rows = rows[scores >= limit]
    # The candidates, compared exactly.
    scores = vectors.similarities(np.asarray(vectors.values[rows]), wanted[None])
    return [Neighbour(int(rows[row]), float(scores[row])) for row in np.lexsort((rows, -scores))[:k]]


def neighbours_of(folder: Dataset, column: str, sample: int, k: int = 10) -> list[Neighbour]:
    """Return the samples that are most similar to a sample of a dataset, without itself.

    Raises:
        ConfigError: There is no such column of vectors, or the sample has no vector.
    """
    opened = vector_column(folder, column)
    query = opened.value(sample)
    if query is None:
        raise ConfigError(
            f"the sample has no vector in column {column!r}",
            at=folder.index.full_key(sample),
            hint="it was skipped, or failed, when the vectors were made",
        )
    return [each for each in neighbours(opened, query, k + 1) if each.sample != sample][:k]


def _rough_cosines(vectors: Vectors, query: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return the cosines of all vectors, from products in float32; 0 for negative ones, and for NaN."""
    values = vectors.values
    cosines = np.empty(len(values), np.float32)
    block = max(1, _BLOCK_BYTES // (4 * values.shape[1]))
    direction = torch.from_numpy((query / max(1e-12, float(np.linalg.norm(query)))).astype(np.float32))
    floats = torch.empty((block, values.shape[1]), dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch: the column is read-only, and nothing writes to it
        stored, results = torch.from_numpy(values), torch.from_numpy(cosines)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # blocks are too small for several: they would wait for each other
    try:
        for start in range(0, len(values), block):
            part = floats[: min(block, len(values) - start)].copy_(stored[start : start + block])
            lengths = torch.linalg.vector_norm(part, dim=1).clamp_(min=1e-6)
            torch.div(torch.mv(part, direction), lengths, out=results[start : start + block])
    finally:
        torch.set_num_threads(threads)
    return np.clip(np.nan_to_num(cosines, copy=False), 0, 1, out=cosines)


def _of_hashes(vectors: Vectors, query: npt.NDArray[Any]) -> SimilarityArray:
    blocks = range(0, len(vectors.values), _HASHES_AT_ONCE)
    parts = [vectors.similarities(vectors.values[at : at + _HASHES_AT_ONCE], query[None]) for at in blocks]
    return np.concatenate([np.empty(0), *parts])
