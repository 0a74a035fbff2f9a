"""The vectors of a column, and how similar two of them are, from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..errors import ConfigError, plural
from ..format.columns.column import Column
from ..format.columns.column_files import open_column
from .picture_hash import HASH_BITS, HASHES

PICTURE_HASH = "phash"
"""Model of columns whose vectors are several hashes of a picture."""

THRESHOLDS = {"cosine": 0.95, "hamming": 0.78, "jaccard": 0.8}
"""Metric → similarity from which samples are near-duplicates; of hashes of pictures, up to 31 of 143 bits differ."""

_METRICS = {"f": "cosine", "|u1": "hamming", "<u4": "jaccard"}
_PARALLEL = 1e-12  # squared length: a vector of zeros has no direction, and is similar to none
_BIT_COUNTS = np.array([byte.bit_count() for byte in range(256)], np.uint8)

SimilarityArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """The vectors of a column and their metric.

    The similarity of floats is the cosine, or 0 if it is negative; of bits, the share of equal ones; of MinHashes, the
    share of equal ones, which estimates the share of equal content.

    Attributes:
        column: The column.
        metric: ``"cosine"``, ``"hamming"`` or ``"jaccard"``.
        hashes: Hashes at the start of a vector of bits: the most similar two of two vectors count. Others may follow:
            two vectors whose others are not zeros are as similar by these, if that is less.
        bits: Bits of each hash.
    """

    column: Column
    metric: str
    hashes: int = 1
    bits: int = 0

    @property
    def values(self) -> npt.NDArray[Any]:
        """The vectors of all samples, shape (n, length)."""
        return self.column.values

    def threshold(self, given: float | None) -> float:
        """Return a threshold, or the metric's own.

        Raises:
            ConfigError: It is not above 0 and at most 1.
        """
        if given is None:
            return THRESHOLDS[self.metric]
        if not 0 < given <= 1:
            raise ConfigError(f"expected a similarity above 0 and at most 1, found {given:g}", at=self.column.name)
        return given

    def known_rows(self, chosen: IntArray | None = None) -> IntArray:
        """Return the numbers of the samples that have a vector, ascending; of the chosen ones, or of all."""
        known = np.flatnonzero(self.column.is_known())
        return known if chosen is None else np.intersect1d(known, chosen)

    def similarities(self, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> SimilarityArray:
        """Return the similarities of vectors, shape (n, length); of one side, the only vector may be meant for all."""
        if self.metric == "cosine":
            return _cosines(left.astype(np.float64), right.astype(np.float64))
        if self.metric == "jaccard":
            return np.asarray((left == right).mean(axis=1), np.float64)
        left, right = self._by_hash(left), self._by_hash(right)
        similar = self._nearest(left[:, : self.hashes], right[:, : self.hashes])
        left, right = left[:, self.hashes :], right[:, self.hashes :]
        if not left.shape[1]:
            return similar
        have_both = left.any(axis=(1, 2)) & right.any(axis=(1, 2))
        return np.where(have_both, np.minimum(similar, self._nearest(left, right)), similar)

    def _by_hash(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the hashes of each vector, shape (n, hashes, bytes)."""
        size = -(-self.bits // 8)
        return values.reshape(len(values), values.shape[1] // size, size)

    def _nearest(self, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> SimilarityArray:
        """Return the similarity of the most similar two hashes of vectors."""
        distances = [
            _BIT_COUNTS[left[:, first] ^ right[:, second]].sum(axis=1, dtype=np.int64)
            for first in range(left.shape[1])
            for second in range(right.shape[1])
        ]
        return np.asarray(1 - np.minimum.reduce(distances) / self.bits, np.float64)

    def directions(self, rows: IntArray) -> npt.NDArray[np.float32]:
        """Return vectors of length 1 whose products order samples as similarities do, shape (n · hashes, elements).

        The vectors of a sample follow each other. A bit is ±1, so that the product of two hashes of ``b`` bits, of
        which ``d`` differ, is ``1 − 2 d / b``. Further hashes only make samples less similar, and take no part.

        Args:
            rows: Numbers of samples.
        """
        values = np.asarray(self.values[rows])
        if self.metric == "hamming":
            hashes = self._by_hash(values)[:, : self.hashes]
            bits = np.unpackbits(hashes.reshape(-1, hashes.shape[2]), axis=1, count=self.bits)
            return (bits.astype(np.float32) * 2 - 1) / np.float32(np.sqrt(self.bits))
        directions = np.nan_to_num(values.astype(np.float32), copy=False, posinf=0.0, neginf=0.0)
        directions /= np.sqrt(np.maximum(np.einsum("ij,ij->i", directions, directions), _PARALLEL))[:, None]
        return directions

    def least_product(self, threshold: float) -> float:
        """Return the least product of directions of samples that are so similar."""
        return threshold if self.metric == "cosine" else 2 * threshold - 1


def _cosines(left: SimilarityArray, right: SimilarityArray) -> SimilarityArray:
    products = np.einsum("ij,ij->i", *np.broadcast_arrays(left, right))
    lengths = np.einsum("ij,ij->i", left, left) * np.einsum("ij,ij->i", right, right)
    cosines: SimilarityArray = np.clip(products / np.sqrt(np.maximum(lengths, _PARALLEL**2)), 0, 1)
    return cosines


def vector_column(folder: Dataset, name: str) -> Column:
    """Open a column of vectors of a dataset.

    Raises:
        ConfigError: There is no such column.
    """
    if name not in folder.documents.column_names():
        hint = f"make it: energon embed {folder.path} --model phash --write {name}"
        raise ConfigError(f"there is no column {name!r}", at=folder.path, hint=hint)
    return open_column(folder.storage, folder.index, name)


def vectors_of_datasets(folders: Sequence[Dataset], name: str) -> Column:
    """Return the columns of this name in several datasets as a single one.

    Raises:
        ConfigError: A dataset has no such column, or vectors of another model than the first one.
    """
    columns = [vector_column(folder, name) for folder in folders]
    if len(columns) == 1:
        return columns[0]  # which is not in memory
    first = columns[0].record
    for folder, column in zip(folders, columns, strict=True):
        if (column.record.model, column.record.length) != (first.model, first.length):
            raise ConfigError(
                f"expected vectors of {first.model or 'one model'} with {plural(first.length, 'element')}, as in"
                f" {folders[0].path}, found {column.record.model or 'others'} with {column.record.length}",
                at=folder.path,
                hint=f"make all vectors in the same way: energon embed {folder.path} --write {name}",
            )
    values = np.concatenate([column.values for column in columns])
    return Column(name, first, values, np.concatenate([column.is_known() for column in columns]))


def vectors_of(column: Column) -> Vectors:
    """Return the vectors of a column.

    Raises:
        ConfigError: The column has no vectors, or its metric does not suit their type.
    """
    record, dtype = column.record, column.values.dtype
    if not record.length:
        raise ConfigError(
            f"column {column.name!r} has no vectors",
            at=column.name,
            hint="make vectors: energon embed DATASET --model phash",
        )
    usual = _METRICS[dtype.kind if dtype.kind == "f" else dtype.newbyteorder("<").str]
    if record.metric not in ("", usual):
        raise ConfigError(
            f"expected vectors of another type for the metric {record.metric}, found {dtype.name}", at=column.name
        )
    if usual != "hamming":
        return Vectors(column, usual)
    is_picture_hash = record.model == PICTURE_HASH
    return Vectors(column, usual, *((HASHES, HASH_BITS) if is_picture_hash else (1, 8 * record.length)))
