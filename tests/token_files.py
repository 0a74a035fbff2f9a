"""Write token files as Megatron-LM does, from its documented layout."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}


def write_tokens(
    prefix: Path, sequences: Sequence[Sequence[float]], *, dtype: str = "uint16", documents: Sequence[int] | None = None
) -> Path:
    """Write ``<prefix>.bin`` and ``<prefix>.idx``, and return the path of the former."""
    arrays = [np.asarray(sequence, dtype) for sequence in sequences]
    starts = list(range(len(arrays) + 1)) if documents is None else list(documents)
    lengths = np.array([len(array) for array in arrays], "<i4")
    offsets = np.cumsum([0, *(array.nbytes for array in arrays)])[:-1].astype("<i8")
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, CODES[dtype], len(arrays), len(starts))
    data = Path(f"{prefix}.bin")
    data.write_bytes(b"".join(array.tobytes() for array in arrays))
    Path(f"{prefix}.idx").write_bytes(
        header + lengths.tobytes() + offsets.tobytes() + np.array(starts, "<i8").tobytes()
    )
    return data


def numbered(count: int, first: int = 0) -> list[list[int]]:
    """Return sequences of 1 to 4 tokens; each begins with its number."""
    return [[first + number, *range(number % 4)] for number in range(count)]


def ids_of(samples: Sequence[Any]) -> list[int]:
    """Return the numbers of sequences that :func:`numbered` made."""
    return [int(sample["tokens"][0]) for sample in samples]
