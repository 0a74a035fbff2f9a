"""Move COCO's coordinates along when their picture is resized or turned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

SWAPS = frozenset({5, 6, 7, 8})  # orientations whose width and height change places
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
        width, height = self.size[::-1] if self.orientation in SWAPS else self.size
        return self.target[0] / width, self.target[1] / height

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies; pixel ``i`` is the range from ``i`` to ``i + 1``."""
        width, height = self.size
        # A turn by a quarter swaps the axes, before they are mirrored.
        if self.orientation in SWAPS:
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
        # Coordinates for the stored pixels follow the turn.
        if size is None or size == self.stored:
            return Motion(self.stored, self.orientation if self.is_turned else 1, self.written)
        # Other coordinates fit only the upright picture, whose sides are swapped.
        if self.orientation not in SWAPS or size != self.stored[::-1]:
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
    """Return the run lengths of a mask, zeros and ones in turn; a text is decompressed as COCO compresses it."""
    # Counts that are not compressed are the lengths.
    if isinstance(counts, list) and all(isinstance(count, int) and count >= 0 for count in counts):
        return counts
    if not isinstance(counts, str):
        raise SampleError(f"expected a list of run lengths or text as counts, found {type(counts).__name__}")
    # A character holds five bits of a length, the lowest first, and whether more follow.
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
        # The highest bit of the last character is the sign.
        if digit & 16:
            value -= 1 << shift  # negative: from the fourth on, a value is the difference to the one before the last
        lengths.append(value + (lengths[-2] if len(lengths) > 2 else 0))
        value = shift = 0
    if shift or min(lengths, default=0) < 0:
        raise SampleError("the counts of a mask are cut or damaged")
    return lengths


def decode_mask(counts: object, size: tuple[int, int]) -> Mask:
    """Return a mask of a width and height, shape (height, width)."""
    lengths = run_lengths(counts)
    width, height = size
    if sum(lengths) != width * height:
        raise SampleError(f"the counts of a mask fill {sum(lengths):,} pixels; expected {width * height:,}")
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(width, height).T


def encode_mask(mask: Mask, *, as_text: bool) -> Any:
    """Return the run lengths of a mask of shape (height, width), or the text that COCO compresses them to."""
    # COCO lists pixels column by column, and begins with the number of zeros.
    pixels = mask.T.reshape(-1)
    changes = np.flatnonzero(np.diff(pixels)) + 1
    starts = [*([0] if len(pixels) and pixels[0] else []), 0, *changes.tolist(), len(pixels)]
    lengths = np.diff(starts).tolist()
    if not as_text:
        return lengths
    # Compress the lengths; from the fourth on, as differences to the one before the last.
    characters = bytearray()
    for position, length in enumerate(lengths):
        value = length - lengths[position - 2] if position > 2 else length
        while True:
            digit, value = value & 31, value >> 5
            is_last = value == (-1 if digit & 16 else 0)
            characters.append(_FIRST_CHARACTER + digit + (0 if is_last else 32))
            if is_last:
                break
    return characters.decode()


_DIGITS = 4  # of a moved coordinate, in pixels: less than any annotation tool writes
_WIDTH, _HEIGHT, _AREA = "width", "height", "area"


def is_moved(name: str) -> bool:
    """Return True if :func:`move_document` moves the values of this name, which COCO or COCO-WholeBody defines.

    >>> is_moved("bbox"), is_moved("lefthand_kpts"), is_moved("face_box"), is_moved("boxes")
    (True, True, True, False)
    """
    return name in ("bbox", "segmentation", "keypoints") or name.endswith(("_box", "_kpts"))


def move_document(document: Mapping[str, Any], change: PictureChange) -> dict[str, Any]:
    """Return the part ``json`` of :class:`CocoSource` with its geometry moved."""
    width, height = document.get(_WIDTH), document.get(_HEIGHT)
    size = (int(width), int(height)) if isinstance(width, int | float) and isinstance(height, int | float) else None
    motion = change.motion(size)
    moved = _moved(document, motion)
    if size is not None:
        moved[_WIDTH], moved[_HEIGHT] = motion.target
    return moved


def area_of(fields: Mapping[str, Any]) -> float | None:
    """Return the area of an object in pixels, by its polygons, mask or box; None without any."""
    # The mask is the most exact, then polygons, then the box.
    segmentation, box = fields.get("segmentation"), fields.get("bbox")
    if isinstance(segmentation, dict) and segmentation.get("counts"):
        return sum(run_lengths(segmentation["counts"])[1::2])
    if segmentation:
        return rounded(sum(_polygon_area(polygon) for polygon in _polygons(segmentation)))
    return rounded(box[2] * box[3]) if isinstance(box, list) and _is_numbers(box) and len(box) == 4 else None


def _moved(fields: Mapping[str, Any], motion: Motion) -> dict[str, Any]:
    moved = dict(fields)
    for name, value in fields.items():
        if not value:
            continue
        if name == _AREA and isinstance(value, int | float):
            # A turn keeps the area.
            x_scale, y_scale = motion.scales
            moved[name] = rounded(value * x_scale * y_scale)
        elif name == "bbox" or name.endswith("_box"):
            moved[name] = _box(value, motion, name)
        elif name == "segmentation":
            moved[name] = _segmentation(value, motion)
        elif name == "keypoints" or name.endswith("_kpts"):
            moved[name] = _keypoints(value, motion, name)
        # Objects of the picture have coordinates of their own.
        elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
            moved[name] = [_moved(item, motion) for item in value]
    return moved


def _box(value: Any, motion: Motion, name: str) -> list[float]:
    if not _is_numbers(value) or len(value) != 4:
        raise SampleError(f"expected x, y, width and height as {name!r}, found {str(value)[:80]}")
    x, y, width, height = value
    (left, top), (right, bottom) = motion.point(x, y), motion.point(x + width, y + height)
    return [*map(rounded, (min(left, right), min(top, bottom), abs(right - left), abs(bottom - top)))]


def _segmentation(value: Any, motion: Motion) -> Any:
    if isinstance(value, dict):
        # A mask is moved as a picture; polygons are moved point by point.
        width, height = motion.size
        if [*value.get("size", ())] != [height, width]:
            raise SampleError(f"expected a mask of size {[height, width]}, found {value.get('size')}")
        mask = motion.mask(decode_mask(value.get("counts"), motion.size))
        counts = encode_mask(mask, as_text=isinstance(value.get("counts"), str))
        return {**value, "counts": counts, "size": [*motion.target[::-1]]}
    polygons = [[*_points(polygon, motion)] for polygon in _polygons(value)]
    return polygons if isinstance(value[0], list) else polygons[0]


def _points(polygon: Sequence[float], motion: Motion) -> Iterator[float]:
    for x, y in zip(polygon[::2], polygon[1::2], strict=True):
        yield from map(rounded, motion.point(x, y))


def _keypoints(value: Any, motion: Motion, name: str) -> list[float]:
    """Return moved keypoints, which name pixels: the first is 0, and its center lies at 0.5."""
    if not _is_numbers(value) or len(value) % 3:
        raise SampleError(f"expected x, y and visibility of each point as {name!r}, found {len(value)} values")
    moved: list[float] = []
    for x, y, visibility in zip(value[::3], value[1::3], value[2::3], strict=True):
        if x == y == visibility == 0:  # the point is not labelled
            moved += (x, y, visibility)
            continue
        point = [coordinate - 0.5 for coordinate in motion.point(x + 0.5, y + 0.5)]
        moved += (*(rounded(max(coordinate, min(0, x, y))) for coordinate in point), visibility)
    return moved


def _polygons(value: Any) -> list[list[float]]:
    """Return the polygons of a segmentation: a list of them, or a flat list of one."""
    polygons = [value] if _is_numbers(value) else value
    if not isinstance(polygons, list) or not all(_is_numbers(each) and len(each) % 2 == 0 for each in polygons):
        raise SampleError("expected polygons of x and y, or a mask with counts and size, as 'segmentation'")
    return polygons


def _polygon_area(polygon: Sequence[float]) -> float:
    xs, ys = polygon[::2], polygon[1::2]
    pairs = zip(xs, ys, [*xs[1:], *xs[:1]], [*ys[1:], *ys[:1]], strict=True)
    return abs(sum(x * next_y - next_x * y for x, y, next_x, next_y in pairs)) / 2


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in value
    )


def rounded(value: float) -> float:
    """Return a rounded coordinate; without a fraction, as an integer."""
    coordinate = round(value, _DIGITS)
    return int(coordinate) if coordinate == int(coordinate) else coordinate
