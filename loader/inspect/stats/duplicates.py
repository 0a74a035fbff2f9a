"""Group samples of the same content."""

from __future__ import annotations

import hashlib
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...dataset.dataset import Dataset


def duplicate_groups(
    folder: Dataset, samples: IntArray, hashes: npt.NDArray[np.uint64], parts: tuple[str, ...]
) -> list[list[int]]:
    """Return groups of samples with the same bytes, the largest first; those of one hash are read again to compare.

    The numbers of a group ascend.

    Args:
        folder: The dataset.
        samples: Shape (n,): numbers of samples.
        hashes: Shape (n,): a hash of each sample's content; 0 for samples without it.
        parts: The parts to compare; empty for all parts.

    Raises:
        FormatError: A shard has changed.
        StorageError: A shard cannot be read.
    """
    samples, hashes = samples[hashes != 0], hashes[hashes != 0]
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else order
    ends = np.concatenate([starts[1:], [len(ordered)]]) if len(ordered) else order
    groups = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end - start > 1:
            groups += _equal(folder, samples[order[start:end]].tolist(), parts)
    folder.close()
    groups.sort(key=lambda group: (-len(group), group[0]))
    return groups


def _equal(folder: Dataset, samples: list[int], parts: tuple[str, ...]) -> list[list[int]]:
    by_content: dict[bytes, list[int]] = defaultdict(list)
    for sample in samples:
        digest = hashlib.sha256()
        for name, value in folder.read_parts(sample, parts or None).items():
            data = value if isinstance(value, bytes) else repr(value).encode()
            digest.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
        by_content[digest.digest()].append(sample)
    return [group for group in by_content.values() if len(group) > 1]
