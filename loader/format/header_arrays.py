"""What many tar headers say, at once: checksums and names of (m, 512) bytes in numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .tar_header import header_name

__all__ = ["checksums_match", "header_names"]


def checksums_match(headers: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Compare stored and computed checksums of (m, 512) headers; False also where the field is written unusually."""
    stored = headers[:, 148:156].astype(np.int64)  # (m, 8)
    computed = headers.sum(axis=1, dtype=np.int64) - stored.sum(axis=1) + 8 * ord(" ")
    digits = stored[:, :6] - 48
    value = digits @ (8 ** np.arange(5, -1, -1, dtype=np.int64))
    usual = ((digits >= 0) & (digits <= 7)).all(axis=1)
    matches: npt.NDArray[np.bool_] = usual & (value == computed)
    return matches


def header_names(headers: npt.NDArray[np.uint8], replaced: dict[int, bytes]) -> npt.NDArray[np.bytes_]:
    """Give the names of (m, 512) headers as an array of NUL-padded byte strings.

    Args:
        headers: The headers.
        replaced: Row → name, where an extension header gives the member another one.
    """
    if len(headers) == 0:
        return np.empty(0, dtype="S1")
    fields = np.ascontiguousarray(headers[:, :100])
    has_prefix = (headers[:, 345] != 0) & (headers[:, 257:263] == np.frombuffer(b"ustar\0", np.uint8)).all(axis=1)
    # Bytes behind the first NUL are no part of the name, and numpy only drops trailing NULs.
    ended = np.logical_or.accumulate(fields == 0, axis=1) if _has_inner_nul(fields) else None
    if ended is not None:
        fields[ended] = 0
    names = fields.view("S100").reshape(-1)
    slow = {row: header_name(headers[row].tobytes()) for row in np.flatnonzero(has_prefix).tolist()} | replaced
    if not slow:
        return names
    widened = names.astype(f"S{max(100, *map(len, slow.values()))}")
    for row, name in slow.items():
        widened[row] = name
    return widened


def _has_inner_nul(fields: npt.NDArray[np.uint8]) -> bool:
    empty = fields == 0
    return bool((empty[:, :-1] & ~empty[:, 1:]).any())
