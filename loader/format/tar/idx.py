"""Read and write ``shard.tar.idx``, the offsets of a shard's samples (``docs/format.md``)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...storage import Storage
from ..nv_meta import TAR_IDX_SUFFIX
from .header import BLOCK


def tar_idx_bytes(sample_offsets: npt.NDArray[np.int64]) -> bytes:
    """Return the file's contents: n + 1 little-endian 64-bit offsets, the last one the end of the last sample."""
    return sample_offsets.astype("<u8").tobytes()


def has_tar_idx(storage: Storage, shard: str, samples: int) -> bool:
    """Return True if a shard has a ``.tar.idx`` of the right length."""
    name = shard + TAR_IDX_SUFFIX
    return storage.exists(name) and storage.stat(name).size_bytes == 8 * (samples + 1)


def read_tar_idx(storage: Storage, shard: str, *, samples: int, shard_size: int) -> npt.NDArray[np.int64] | None:
    """Read a shard's sample offsets.

    Returns:
        Offsets in bytes, shape (samples + 1,); None if the file is missing or does not fit this shard.
    """
    if not has_tar_idx(storage, shard, samples):
        return None
    offsets = np.frombuffer(storage.read(shard + TAR_IDX_SUFFIX), dtype="<u8")
    if (offsets > shard_size).any() or (offsets % BLOCK).any():  # differences of larger ones may overflow
        return None
    signed = offsets.astype(np.int64)
    return signed if (np.diff(signed) >= BLOCK).all() else None
