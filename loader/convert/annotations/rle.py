"""Read and write masks in the run lengths of COCO: columns one by one, beginning with the zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import SampleError

Mask = npt.NDArray[np.bool_]

_FIRST_CHARACTER = (
    48  # of the characters that COCO compresses run lengths to, with 5 bits of a value and 1 that continues
)

_MOST_BITS = 60  # of a run length


def run_lengths(counts: object) -> list[int]:
    """Return the run lengths of a mask, which are zeros and ones in turn.

    Args:
        counts: A list of numbers, or the text that COCO compresses them to.

    Raises:
        SampleError: They are neither.
    """
    if isinstance(counts, list) and all(isinstance(count, int) and count >= 0 for count in counts):
        return counts
    if not isinstance(counts, str):
        raise SampleError(f"expected a list of run lengths or text as counts, found {type(counts).__name__}")
    lengths: list[int] = []
    value = shift = 0
    for character in counts:
        digit = ord(character) - _FIRST_CHARACTER
        if not 0 <= digit < 64 or shift > _MOST_BITS:
            raise SampleError(f"the counts of a mask have {character!r}, where compressed run lengths do not")
        value |= (digit & 31) << shift
        shift += 5
        if digit & 32:
            continue
        if digit & 16:
            value -= 1 << shift  # negative: from the fourth on, a value is the difference to the one before the last
        lengths.append(value + (lengths[-2] if len(lengths) > 2 else 0))
        value = shift = 0
    if shift or min(lengths, default=0) < 0:
        raise SampleError("the counts of a mask are cut or damaged")
    return lengths


def decode_mask(counts: object, size: tuple[int, int]) -> Mask:
    """Return a mask, shape (height, width).

    Args:
        counts: As for :func:`run_lengths`.
        size: Width and height in pixels.

    Raises:
        SampleError: The run lengths are invalid, or do not fill the mask.
    """
    lengths = run_lengths(counts)
    width, height = size
    if sum(lengths) != width * height:
        raise SampleError(f"the counts of a mask fill {sum(lengths):,} pixels; expected {width * height:,}")
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(width, height).T


def encode_mask(mask: Mask, *, as_text: bool) -> Any:
    """Return the run lengths of a mask.

    Args:
        mask: The mask, shape (height, width).
        as_text: Compress them to text, else return a list.
    """
    pixels = mask.T.reshape(-1)
    changes = np.flatnonzero(np.diff(pixels)) + 1
    starts = [*([0] if len(pixels) and pixels[0] else []), 0, *changes.tolist(), len(pixels)]
    lengths = np.diff(starts).tolist()
    if not as_text:
        return lengths
    characters = bytearray()
    for number, length in enumerate(lengths):
        value = length - lengths[number - 2] if number > 2 else length
        while True:
            digit, value = value & 31, value >> 5
            is_last = value == (-1 if digit & 16 else 0)
            characters.append(_FIRST_CHARACTER + digit + (0 if is_last else 32))
            if is_last:
                break
    return characters.decode()
