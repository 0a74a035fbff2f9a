"""Find keys that repeat, in little memory."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

_Hashes = npt.NDArray[np.uint64]


class SeenKeys:
    """The keys of samples by a hash of 63 bits, and the number of the shard of each.

    The keys of the last samples are in a dictionary; older ones are in sorted arrays, 12 bytes a key, which are merged
    when they are of like lengths, so that there are few of them.
    """

    _MAX_RECENT = 1 << 16

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._runs: list[tuple[_Hashes, npt.NDArray[np.uint32]]] = []

    def add(self, key: str, shard: int) -> None:
        self._recent[hash_key(key)] = shard
        if len(self._recent) >= self._MAX_RECENT:
            self._settle()

    def shard(self, key: str) -> int | None:
        """Return the shard of a key, or of another key with the same hash; None for a key that is new."""
        value = hash_key(key)
        if value in self._recent:
            return self._recent[value]
        wanted = np.uint64(value)
        for hashes, shards in self._runs:
            position = int(np.searchsorted(hashes, wanted))
            if position < len(hashes) and hashes[position] == wanted:
                return int(shards[position])
        return None

    def _settle(self) -> None:
        run = np.fromiter(self._recent.keys(), np.uint64, len(self._recent))
        shards = np.fromiter(self._recent.values(), np.uint32, len(self._recent))
        self._recent = {}
        # Merge runs of like lengths, so that their number grows with the logarithm of the keys.
        while self._runs and len(self._runs[-1][0]) <= 2 * len(run):
            last_run, last_shards = self._runs.pop()
            run, shards = np.concatenate((last_run, run)), np.concatenate((last_shards, shards))
        order = np.argsort(run)
        self._runs.append((run[order], shards[order]))


def hash_key(key: str) -> int:
    """Return 63 bits of a hash of a key, the same in each process."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 1
