"""Move the boxes, polygons, masks and keypoints of a COCO sample with its picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import SampleError
from .picture_change import Motion, PictureChange
from .rle import decode_mask, encode_mask, run_lengths

_DIGITS = 4  # of a moved coordinate, in pixels: less than any annotation tool writes
_WIDTH, _HEIGHT, _AREA = "width", "height", "area"


def is_moved(name: str) -> bool:
    """Return True if :func:`move_document` moves the values of this name: those of COCO and COCO-WholeBody.

    >>> is_moved("bbox"), is_moved("lefthand_kpts"), is_moved("face_box"), is_moved("boxes")
    (True, True, True, False)
    """
    return name in ("bbox", "segmentation", "keypoints") or name.endswith(("_box", "_kpts"))


def move_document(document: Mapping[str, Any], change: PictureChange) -> dict[str, Any]:
    """Return the document of a sample with its geometry moved.

    Args:
        document: The part ``json`` of :class:`CocoSource`.
        change: The change of the picture.

    Raises:
        SampleError: The coordinates are for a picture of another size, or not as COCO defines them.
    """
    width, height = document.get(_WIDTH), document.get(_HEIGHT)
    size = (int(width), int(height)) if isinstance(width, int | float) and isinstance(height, int | float) else None
    motion = change.motion(size)
    moved = _moved(document, motion)
    if size is not None:
        moved[_WIDTH], moved[_HEIGHT] = motion.target
    return moved


def area_of(fields: Mapping[str, Any]) -> float | None:
    """Return the area of an object in pixels, by its polygons, mask or box; None without any.

    Raises:
        SampleError: They are not as COCO defines them.
    """
    segmentation, box = fields.get("segmentation"), fields.get("bbox")
    if isinstance(segmentation, dict) and segmentation.get("counts"):
        return sum(run_lengths(segmentation["counts"])[1::2])
    if segmentation:
        return _number(sum(_polygon_area(polygon) for polygon in _polygons(segmentation)))
    return _number(box[2] * box[3]) if isinstance(box, list) and _is_numbers(box) and len(box) == 4 else None


def _moved(fields: Mapping[str, Any], motion: Motion) -> dict[str, Any]:
    moved: dict[str, Any] = {}
    for name, value in fields.items():
        if not value:
            moved[name] = value
        elif name == _AREA and isinstance(value, int | float):
            x_scale, y_scale = motion.scales
            moved[name] = _number(value * x_scale * y_scale)
        elif name == "bbox" or name.endswith("_box"):
            moved[name] = _box(value, motion, name)
        elif name == "segmentation":
            moved[name] = _segmentation(value, motion)
        elif name == "keypoints" or name.endswith("_kpts"):
            moved[name] = _keypoints(value, motion, name)
        elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
            moved[name] = [_moved(item, motion) for item in value]
        else:
            moved[name] = value
    return moved


def _box(value: Any, motion: Motion, name: str) -> list[float]:
    if not _is_numbers(value) or len(value) != 4:
        raise SampleError(f"expected x, y, width and height as {name!r}, found {str(value)[:80]}")
    x, y, width, height = value
    (left, top), (right, bottom) = motion.point(x, y), motion.point(x + width, y + height)
    sides = (min(left, right), min(top, bottom), abs(right - left), abs(bottom - top))
    return [*map(_number, sides)]


def _segmentation(value: Any, motion: Motion) -> Any:
    if isinstance(value, dict):
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
        yield from map(_number, motion.point(x, y))


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
        moved += (*(_number(max(coordinate, min(0, x, y))) for coordinate in point), visibility)
    return moved


def _polygons(value: Any) -> list[list[float]]:
    """Return the polygons of a segmentation: a list of them, or a flat list of one."""
    polygons = [value] if _is_numbers(value) else value
    if not isinstance(polygons, list) or not all(_is_numbers(one) and len(one) % 2 == 0 for one in polygons):
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


def _number(value: float) -> float:
    """Return a rounded coordinate; without a fraction, as an integer."""
    rounded = round(value, _DIGITS)
    return int(rounded) if rounded == int(rounded) else rounded
