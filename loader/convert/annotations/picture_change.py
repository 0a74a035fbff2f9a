"""Compute where coordinates lie after their picture was turned and resized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from PIL import Image

from ...errors import SampleError
from .rle import Mask

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
        """Return a mask of the target's size; each pixel is that of the nearest one."""
        picture = Image.fromarray(mask.astype(np.uint8))
        if self.orientation in TRANSPOSES:
            picture = picture.transpose(TRANSPOSES[self.orientation])
        return np.asarray(picture.resize(self.target, Image.Resampling.NEAREST)) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureChange:
    """A picture whose pixels were turned or resized.

    Attributes:
        stored: Its size before.
        written: Its size afterwards.
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

        Raises:
            SampleError: It is the size of another picture.
        """
        if size is None or size == self.stored:
            return Motion(self.stored, self.orientation if self.is_turned else 1, self.written)
        if self.orientation not in _SWAPS or size != self.stored[::-1]:
            width, height = self.stored
            raise SampleError(
                f"the annotations are for a picture of {size[0]} × {size[1]} pixels, found one of {width} × {height}"
            )
        return Motion(size, 1, self.written if self.is_turned else self.written[::-1])
