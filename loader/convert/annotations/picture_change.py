"""Compute where coordinates and masks lie after their picture was turned and resized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...errors import SampleError

Size = tuple[int, int]
"""Width and height in pixels."""

_T = Image.Transpose
TRANSPOSES = {
    2: _T.FLIP_LEFT_RIGHT, 3: _T.ROTATE_180, 4: _T.FLIP_TOP_BOTTOM, 5: _T.TRANSPOSE, 6: _T.ROTATE_270,
    7: _T.TRANSVERSE, 8: _T.ROTATE_90,
}  # fmt: skip
"""Orientation of EXIF → what makes the picture upright."""

_SWAPS = frozenset({5, 6, 7, 8})  # orientations whose width and height change places
_MIRRORS_X = frozenset({2, 3, 6, 7})  # after that, columns are counted from the right
_MIRRORS_Y = frozenset({3, 4, 7, 8})  # and rows from the bottom


class Motion(NamedTuple):
    """The way of coordinates: a turn, then a scaling.

    Attributes:
        size: Size of the picture that the coordinates are for.
        orientation: Orientation of EXIF that is applied; 1 for none.
        target: Size of the picture that they are for afterwards.
    """

    size: Size
    orientation: int
    target: Size

    @property
    def scales(self) -> tuple[float, float]:
        """Factors of both axes, after the turn."""
        width, height = self.size[::-1] if self.orientation in _SWAPS else self.size
        return self.target[0] / width, self.target[1] / height

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies; pixel ``i`` is the range from ``i`` to ``i + 1``."""
        width, height = self.size
        if self.orientation in _SWAPS:
            x, y, width, height = y, x, height, width
        x = width - x if self.orientation in _MIRRORS_X else x
        y = height - y if self.orientation in _MIRRORS_Y else y
        return x * self.target[0] / width, y * self.target[1] / height

    def mask(self, mask: Mask) -> Mask:
        """Return a mask of the target's size, resized by nearest pixels."""
        picture = Image.fromarray(mask.astype(np.uint8))
        if self.orientation in TRANSPOSES:
            picture = picture.transpose(TRANSPOSES[self.orientation])
        return np.asarray(picture.resize(self.target, Image.Resampling.NEAREST)) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureChange:
    """A picture whose pixels were turned or resized.

    Attributes:
        orientation: The orientation in its EXIF; 1 for upright.
        is_turned: The orientation was applied to the pixels.
    """

    stored: Size
    written: Size
    orientation: int = 1
    is_turned: bool = False

    def motion(self, size: Size | None) -> Motion:
        """Return the way of coordinates.

        Args:
            size: Size of the picture that they are for. Tools that show pictures upright note that size, and their
                coordinates are not turned. None for the pixels as they are stored, which is also assumed where both
                sizes are equal.
        """
        if size is None or size == self.stored:
            return Motion(self.stored, self.orientation if self.is_turned else 1, self.written)
        if self.orientation not in _SWAPS or size != self.stored[::-1]:
            width, height = self.stored
            raise SampleError(
                f"the annotations are for a picture of {size[0]} × {size[1]} pixels, found one of {width} × {height}"
            )
        return Motion(size, 1, self.written if self.is_turned else self.written[::-1])


Mask = npt.NDArray[np.bool_]

_FIRST_CHARACTER = (
    48  # of the characters that COCO compresses run lengths to, with 5 bits of a value and 1 that continues
)

_MOST_BITS = 60  # of a run length


def run_lengths(counts: object) -> list[int]:
    """Return the run lengths of a mask, which are zeros and ones in turn.

    Args:
        counts: A list of numbers, or the text that COCO compresses them to.
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
        size: Width and height in pixels.
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
