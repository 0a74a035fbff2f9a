"""Assign groups of samples, or shards that share groups, to the parts of a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray


def _positions(names: Sequence[str], seed: int) -> npt.NDArray[np.float64]:
    """Return a pseudorandom number in [0, 1) for each name, which depends on nothing else."""
    prefix = f"{seed}\0".encode()
    digests = (blake2b(prefix + name.encode("utf-8", "surrogateescape"), digest_size=8).digest() for name in names)
    return np.array([int.from_bytes(digest, "little") / 2**64 for digest in digests], np.float64)


def _ends(ratio: Mapping[str, float]) -> npt.NDArray[np.float64]:
    return np.cumsum([*ratio.values()]) / sum(ratio.values())


def assign_balanced(names: Sequence[str], sizes: IntArray, ratio: Mapping[str, float], seed: int) -> IntArray:
    """Return the part of each group, so that the parts come as near to the ratio as the groups' sizes allow.

    Groups are put in a pseudorandom order, which is cut where the share of the samples is reached.

    Args:
        names: Names of the groups.
        sizes: Their numbers of samples, shape (n,).
        ratio: Part → share.
        seed: Seed of the order.

    Returns:
        Positions of parts in the ratio, shape (n,).

    >>> assign_balanced(["a", "b", "c", "d"], np.array([1, 1, 1, 1]), {"train": 3, "val": 1}, 0).tolist().count(0)
    3
    """
    order = np.argsort(_positions(names, seed), kind="stable")
    middles = np.cumsum(sizes[order]) - sizes[order] / 2
    parts = np.empty(len(names), np.int64)
    parts[order] = np.searchsorted(_ends(ratio)[:-1] * sizes.sum(), middles, side="right")
    return parts


def assign_stable(names: Sequence[str], ratio: Mapping[str, float], seed: int) -> IntArray:
    """Return the part of each group by a hash of its name alone, so that it stays when other groups are added.

    >>> assign_stable(["a", "b"], {"train": 1, "val": 1}, 0).tolist() == assign_stable(
    ...     ["a"], {"train": 1, "val": 1}, 0).tolist() + assign_stable(["b"], {"train": 1, "val": 1}, 0).tolist()
    True
    """
    return np.searchsorted(_ends(ratio)[:-1], _positions(names, seed), side="right").astype(np.int64)


def connect_shards(shard_of: IntArray, groups: IntArray, shards: int) -> IntArray:
    """Return the component of each shard; shards that share a group are in one component.

    Args:
        shard_of: Number of each sample's shard, shape (n,).
        groups: Number of each sample's group, shape (n,).
        shards: Number of shards.

    Returns:
        For each shard the lowest number of a shard in its component, shape (shards,).

    >>> connect_shards(np.array([0, 1, 2]), np.array([5, 6, 5]), 4).tolist()
    [0, 1, 0, 3]
    """
    pairs = np.unique(groups * shards + shard_of)
    group, shard = pairs // shards, pairs % shards
    same = group[1:] == group[:-1]
    edges = np.unique(shard[:-1][same] * shards + shard[1:][same])
    parent = list(range(shards))

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    for edge in edges.tolist():
        first, second = sorted((root(edge // shards), root(edge % shards)))
        parent[second] = first
    return np.array([root(one) for one in range(shards)], np.int64)
