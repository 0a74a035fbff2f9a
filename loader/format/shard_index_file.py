"""The index of one shard as a file, while a prepare runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Annotated, Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from .shard_index import ShardIndex
from .tar_header import BLOCK

__all__ = ["load_shard_index", "save_shard_index"]

# A line of JSON, then each column as numpy's .npy format, in this order.
_COLUMNS: Mapping[str, npt.DTypeLike] = {
    "part_name": np.uint32,
    "part_offset": np.int64,
    "part_size": np.int64,
    "part_ends": np.int64,
    "key_bytes": np.uint8,
    "key_ends": np.int64,
    "key_hash": np.uint64,
    "key_order": np.int64,
    "sample_offsets": np.int64,
}
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a saved index says beside its columns."""

    part_names: tuple[str, ...]
    end_offset: _Count
    plain: bool
    scattered: _Count
    misread: _Count
    warnings: tuple[str, ...]


def save_shard_index(index: ShardIndex, file: BinaryIO) -> None:
    """Write an index to a file that :func:`load_shard_index` reads."""
    facts = {name: getattr(index, name) for name in _Facts.__struct_fields__}
    file.write(json.dumps(facts).encode("ascii") + b"\n")
    for name in _COLUMNS:
        np.save(file, getattr(index, name), allow_pickle=False)


def load_shard_index(file: BinaryIO, *, name: str, shard_size: int | None = None) -> ShardIndex:
    """Read what :func:`save_shard_index` wrote.

    Args:
        file: Where it was written to.
        name: The file's name, for messages.
        shard_size: In bytes: what the shard's offsets must stay below.

    Raises:
        FormatError: It is damaged, or no index that any shard could have.
    """
    try:
        facts = msgspec.convert(json.loads(file.readline()), _Facts)
        columns: dict[str, Any] = {column: _read_column(file, dtype) for column, dtype in _COLUMNS.items()}
        index = ShardIndex(**msgspec.structs.asdict(facts), **columns)
        _check_ranges(index, facts.end_offset if shard_size is None else min(shard_size, facts.end_offset))
    except Exception as error:  # numpy's parser fails on damage in a dozen ways
        raise FormatError(f"not an index of a shard: {error}", shard=name) from error
    return index


def _read_column(file: BinaryIO, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Read one column; a header that promises more than the file holds is refused before memory is taken for it."""
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("expected a column in version 1.0 of the .npy format")
    shape, _, found = np.lib.format.read_array_header_1_0(file)
    if len(shape) != 1 or found != np.dtype(dtype):
        raise ValueError(f"expected a column of {np.dtype(dtype)}, found shape {shape} of {found}")
    start = file.tell()
    left = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    if not 0 <= shape[0] * found.itemsize <= left:
        raise ValueError(f"expected a column of {shape[0]} rows, found {left} bytes")
    return np.frombuffer(file.read(shape[0] * found.itemsize), dtype=dtype)


def _check_ranges(index: ShardIndex, end: int) -> None:
    """Refuse columns that contradict each other, or lead out of a shard that ends at byte ``end``."""
    samples, parts = len(index), len(index.part_name)
    rows = [len(column) for column in (index.part_offset, index.part_size)]
    rows_of_samples = [len(column) for column in (index.key_ends, index.key_hash, index.key_order)]
    if rows != [parts] * 2 or rows_of_samples != [samples] * 3 or len(index.sample_offsets) not in (0, samples + 1):
        raise ValueError("its columns differ in length")
    for ends, last in ((index.part_ends, parts), (index.key_ends, len(index.key_bytes))):
        if (np.diff(ends, prepend=0) < 0).any() or (int(ends[-1]) if samples else 0) != last:
            raise ValueError("a column of ends does not ascend to the last row")
    for column, low, high in (
        (index.part_name, 0, len(index.part_names) - 1),
        (index.part_offset, BLOCK, end),
        (index.part_size, 0, end),
        (index.key_order, 0, samples - 1),
        (index.sample_offsets, 0, end),
    ):
        if ((column < low) | (column > high)).any():
            raise ValueError(f"a column has values outside of [{low}, {high}]")
    out = index.part_offset + index.part_size > end
    if out.any() or (np.diff(index.part_ends, prepend=0) == 0).any() or (index.part_offset % BLOCK).any():
        raise ValueError("a sample has no parts, or parts where no tar file has any")
    if (index.key_hash[1:] < index.key_hash[:-1]).any() or (np.bincount(index.key_order, minlength=samples) != 1).any():
        raise ValueError("its keys are not found by their hashes")
