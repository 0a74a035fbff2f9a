"""Many keys in one row of bytes, hashed and compared eight bytes of all of them at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..format.key_hash import hash_keys

__all__ = ["Integers", "Keys"]

Integers = npt.NDArray[np.int64]
_HASHED_AT_ONCE = 1 << 14
_WORD = 8
_WORD_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD)] + [(1 << 64) - 1], np.uint64)


class Keys:
    """Some keys, of which each lies somewhere in a row of bytes.

    Args:
        key_bytes: The bytes.
        starts: Where each key begins; shape (n,).
        ends: Where each ends; shape (n,).
    """

    def __init__(self, key_bytes: npt.NDArray[np.uint8], starts: Integers, ends: Integers) -> None:
        self.starts = starts
        self.sizes = ends - starts
        padded = np.concatenate([key_bytes, np.zeros(_WORD, np.uint8)])  # room behind the last key
        self.key_bytes = padded[: len(key_bytes)]
        # Every eight bytes as one number, wherever they begin.
        self._words = np.ndarray((len(key_bytes) + 1,), "<u8", padded, strides=(1,))

    @classmethod
    def concatenate(cls, some: Sequence[Keys]) -> Keys:
        """Put keys behind each other."""
        if len(some) == 1:
            return some[0]
        firsts = np.cumsum([0, *(len(keys.key_bytes) for keys in some)])
        starts = np.concatenate([keys.starts + first for keys, first in zip(some, firsts, strict=False)])
        key_bytes = np.concatenate([keys.key_bytes for keys in some])
        return cls(key_bytes, starts, starts + np.concatenate([keys.sizes for keys in some]))

    def __len__(self) -> int:
        return len(self.starts)

    def chosen(self, which: npt.NDArray[np.bool_]) -> Keys:
        """Give some of them."""
        starts = self.starts[which]
        return Keys(self.key_bytes, starts, starts + self.sizes[which])

    def one(self, number: int) -> bytes:
        """Give one of them."""
        start = int(self.starts[number])
        return self.key_bytes[start : start + int(self.sizes[number])].tobytes()

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Hash them as the index does, some thousands at a time since they are padded to the longest."""
        hashes = np.empty(len(self), np.uint64)
        for start in range(0, len(self), _HASHED_AT_ONCE):
            some = slice(start, start + _HASHED_AT_ONCE)
            sizes = self.sizes[some]
            words = np.empty((len(sizes), max(1, -(-int(sizes.max()) // _WORD))), "<u8")
            for column in range(words.shape[1]):
                words[:, column] = self.words_at(self.starts[some], sizes, column * _WORD)
            hashes[some] = hash_keys(words.view(np.uint8), sizes)
        return hashes

    def equal(self, own: Integers, other: Keys, others: Integers) -> npt.NDArray[np.bool_]:
        """Compare pairs byte for byte: number ``own[i]`` of these keys with number ``others[i]`` of the other ones."""
        starts, other_starts, sizes = self.starts[own], other.starts[others], self.sizes[own]
        equal: npt.NDArray[np.bool_] = sizes == other.sizes[others]
        left, offset = np.flatnonzero(equal), 0
        while len(left):
            word = self.words_at(starts[left], sizes[left], offset)
            equal[left] = word == other.words_at(other_starts[left], sizes[left], offset)
            offset += _WORD
            left = left[equal[left] & (sizes[left] > offset)]
        return equal

    def words_at(self, starts: Integers, sizes: Integers, offset: int) -> npt.NDArray[np.uint64]:
        """Give eight bytes of keys from an offset in each, as numbers; behind a key's end they are zero.

        Args:
            starts: Where the keys begin.
            sizes: Their bytes.
            offset: From which of their bytes on.
        """
        mask = _WORD_MASKS[np.clip(sizes - offset, 0, _WORD)]
        word: npt.NDArray[np.uint64] = self._words[np.minimum(starts + offset, len(self._words) - 1)] & mask
        return word
