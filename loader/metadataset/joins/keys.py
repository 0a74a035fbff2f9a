"""Keys packed in one byte array, hashed and compared by numpy, eight bytes of all keys at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...format.index.dataset_index import DatasetIndex
from ...format.index.key_hash import hash_keys
from ...format.index.npy_column import ColumnReader
from ...format.nv_meta import contradictory
from ...storage import open_storage

_KEYS_PER_BATCH = 1 << 14
_WORD = 8
_WORD_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD)] + [(1 << 64) - 1], np.uint64)


class Keys:
    """Keys packed in one byte array.

    Args:
        key_bytes: The bytes.
        starts: Offset of the first byte of each key; shape (n,).
        ends: Offset behind the last byte of each key; shape (n,).
    """

    def __init__(self, key_bytes: npt.NDArray[np.uint8], starts: IntArray, ends: IntArray) -> None:
        self.starts = starts
        self.sizes = ends - starts
        padded = np.concatenate([key_bytes, np.zeros(_WORD, np.uint8)])  # a word may begin at the last byte
        self.key_bytes = padded[: len(key_bytes)]
        # Overlapping view: the eight bytes from each offset as one number.
        self._words = np.ndarray((len(key_bytes) + 1,), "<u8", padded, strides=(1,))

    @classmethod
    def concatenate(cls, some: Sequence[Keys]) -> Keys:
        if len(some) == 1:
            return some[0]
        firsts = np.cumsum([0, *(len(keys.key_bytes) for keys in some)])
        starts = np.concatenate([keys.starts + first for keys, first in zip(some, firsts, strict=False)])
        key_bytes = np.concatenate([keys.key_bytes for keys in some])
        return cls(key_bytes, starts, starts + np.concatenate([keys.sizes for keys in some]))

    def __len__(self) -> int:
        return len(self.starts)

    def chosen(self, which: npt.NDArray[np.bool_]) -> Keys:
        starts = self.starts[which]
        return Keys(self.key_bytes, starts, starts + self.sizes[which])

    def one(self, index: int) -> bytes:
        start = int(self.starts[index])
        return self.key_bytes[start : start + int(self.sizes[index])].tobytes()

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return the hashes that the index has for these keys, shape (n,).

        Keys are hashed in batches, since the keys of a batch are padded to the longest one.
        """
        hashes = np.empty(len(self), np.uint64)
        for start in range(0, len(self), _KEYS_PER_BATCH):
            some = slice(start, start + _KEYS_PER_BATCH)
            sizes = self.sizes[some]
            # Write each key into a row of words, padded with zeros.
            words = np.empty((len(sizes), max(1, -(-int(sizes.max()) // _WORD))), "<u8")
            for column in range(words.shape[1]):
                words[:, column] = self.words_at(self.starts[some], sizes, column * _WORD)
            hashes[some] = hash_keys(words.view(np.uint8), sizes)
        return hashes

    def equal(self, indices: IntArray, other: Keys, others: IntArray) -> npt.NDArray[np.bool_]:
        """Compare pairs byte for byte: key ``indices[i]`` of this object with key ``others[i]`` of ``other``."""
        starts, other_starts, sizes = self.starts[indices], other.starts[others], self.sizes[indices]
        equal: npt.NDArray[np.bool_] = sizes == other.sizes[others]
        # Compare keys of equal sizes word by word; pairs that differ drop out.
        left, offset = np.flatnonzero(equal), 0
        while len(left):
            word = self.words_at(starts[left], sizes[left], offset)
            equal[left] = word == other.words_at(other_starts[left], sizes[left], offset)
            offset += _WORD
            left = left[equal[left] & (sizes[left] > offset)]
        return equal

    def words_at(self, starts: IntArray, sizes: IntArray, offset: int) -> npt.NDArray[np.uint64]:
        """Return eight bytes of each key at an offset in it as a number; bytes behind a key's end are zero."""
        mask = _WORD_MASKS[np.clip(sizes - offset, 0, _WORD)]
        return self._words[np.minimum(starts + offset, len(self._words) - 1)] & mask


_ROWS_PER_READ = 1 << 18


class SampleKeys:
    """Reader of a dataset's keys and of the table of their hashes."""

    def __init__(self, index: DatasetIndex) -> None:
        self.index = index

    def open(self, stack: ExitStack) -> None:
        storage = open_storage(self.index.path)
        self._key_ends, self._key_bytes, self._key_hash, self._key_sample = (
            stack.enter_context(ColumnReader(storage, f"{name}.npy"))
            for name in ("key_ends", "key_bytes", "key_hash", "key_sample")
        )

    def read(self, samples: range) -> Keys:
        # The key before the first one ends where the first one begins.
        ends = self._key_ends[max(0, samples.start - 1) : samples.stop].astype(np.int64)
        first = 0
        if samples.start:
            first, ends = int(ends[0]), ends[1:]
        ends = ends - first
        # Damaged ends would address the bytes of other keys.
        if len(ends) and (ends[0] < 0 or (np.diff(ends) < 0).any() or first + int(ends[-1]) > len(self._key_bytes)):
            raise contradictory("the ends of keys do not ascend", self.index.path)
        starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
        return Keys(self._key_bytes[first : first + (int(ends[-1]) if len(ends) else 0)], starts, ends)

    def table(self) -> Iterator[tuple[npt.NDArray[np.uint64], IntArray]]:
        """Yield consecutive blocks of the hash table: ascending hashes of all keys, and the sample of each."""
        size = len(self.index)
        for start in range(0, size, _ROWS_PER_READ):
            rows = slice(start, start + _ROWS_PER_READ)
            samples = self._key_sample[rows].astype(np.int64)
            if int(samples.max()) >= size or int(samples.min()) < 0:
                raise contradictory("a key refers to a sample that does not exist", self.index.path)
            yield self._key_hash[rows], samples
