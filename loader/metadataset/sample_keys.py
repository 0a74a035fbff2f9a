"""The keys of a dataset's samples, read from the columns of its index in pieces: a memory map counts as memory used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..format.dataset_index import DatasetIndex
from ..format.npy_column import ColumnReader
from ..storage import open_storage
from .packed_keys import Integers, Keys

__all__ = ["SampleKeys"]

_ROWS_AT_ONCE = 1 << 18


class SampleKeys:
    """Reads keys and the table of their hashes.

    Use as a context manager.

    Args:
        index: The dataset's index.

    Raises:
        FormatError: A column is damaged.
    """

    def __init__(self, index: DatasetIndex) -> None:
        self.index = index
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        storage = open_storage(self.index.path)
        with ExitStack() as stack:
            self._key_ends, self._key_bytes, self._key_hash, self._key_sample = (
                stack.enter_context(ColumnReader(storage, f"{name}.npy"))
                for name in ("key_ends", "key_bytes", "key_hash", "key_sample")
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def read(self, samples: range) -> Keys:
        """Read the keys of neighbouring samples.

        Raises:
            FormatError: The columns contradict each other.
        """
        ends = self._key_ends[max(0, samples.start - 1) : samples.stop].astype(np.int64)
        first = 0
        if samples.start:
            first, ends = int(ends[0]), ends[1:]
        ends = ends - first
        if len(ends) and (ends[0] < 0 or (np.diff(ends) < 0).any() or first + int(ends[-1]) > len(self._key_bytes)):
            raise self.contradiction("the ends of keys do not ascend")
        starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
        return Keys(self._key_bytes[first : first + (int(ends[-1]) if len(ends) else 0)], starts, ends)

    def table(self) -> Iterator[tuple[npt.NDArray[np.uint64], Integers]]:
        """Yield the hashes of all keys, ascending, and the sample of each, in pieces that do not overlap.

        Raises:
            FormatError: The columns contradict each other.
        """
        size = len(self.index)
        for start in range(0, size, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            samples = self._key_sample[rows].astype(np.int64)
            if int(samples.max()) >= size or int(samples.min()) < 0:
                raise self.contradiction("a key is said to be of a sample that there is not")
            yield self._key_hash[rows], samples

    def contradiction(self, found: str) -> FormatError:
        """Make the error of an index that cannot be right."""
        return FormatError(
            f"the columns of the index contradict each other ({found})",
            shard=self.index.path,
            do="run energon prepare --force-overwrite on this dataset",
        )
