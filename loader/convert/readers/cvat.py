"""CVAT for images: elements ``<image>`` of an XML file, with the shapes of a picture each."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from ..annotations.coordinates import Size, rounded
from .reader import Annotation, AnnotationReader, box_of_corners, box_of_points, placed_mask

_SHAPES = ("box", "polygon", "mask", "ellipse", "points", "polyline")  # cuboids and skeletons stay as they are
_CORNERS = ("xtl", "ytl", "xbr", "ybr")
_ELLIPSE = ("cx", "cy", "rx", "ry")
_MASK = ("left", "top", "width", "height")
_INTEGERS = ("occluded", "z_order")


class _CvatReader(AnnotationReader):
    title = "CVAT"

    def recognises(self, data: bytes) -> bool | None:
        document = msgspec.json.decode(data, type=dict[str, Any])
        shapes = [shape for kind in _SHAPES for shape in document.get(kind, [])]
        is_image = {"width", "height"} <= document.keys()
        return all({"label", "occluded"} <= shape.keys() for shape in shapes) and is_image if shapes else None

    def read(self, annotation: Annotation) -> dict[str, Any]:
        document = msgspec.json.decode(annotation.data, type=dict[str, Any])
        width, height = int(document["width"]), int(document["height"])
        objects = [_object(kind, shape, annotation) for kind in _SHAPES for shape in document.pop(kind, [])]
        return {**document, "width": width, "height": height, "objects": objects}


def _object(kind: str, fields: dict[str, Any], annotation: Annotation) -> dict[str, Any]:
    shape: dict[str, Any] = {"category": fields.pop("label")}
    # Points are a text: x,y;x,y
    points = [float(value) for value in fields.pop("points", "").replace(";", ",").split(",") if value]
    match kind:
        case "box":
            shape["bbox"] = box_of_corners(*(float(fields.pop(name)) for name in _CORNERS))
        case "polygon":
            shape |= {"bbox": box_of_points(points), "segmentation": [[*map(rounded, points)]]}
        case "mask":
            shape |= _mask(fields, annotation.size())
        case "ellipse":
            x, y, x_radius, y_radius = (float(fields.pop(name)) for name in _ELLIPSE)
            shape["bbox"] = box_of_corners(x - x_radius, y - y_radius, x + x_radius, y + y_radius)
        case "points":
            pairs = zip(points[::2], points[1::2], strict=True)
            shape["keypoints"] = [value for x, y in pairs for value in (rounded(x), rounded(y), 2)]
        case _:
            shape["points"] = points
    if "attribute" in fields:
        shape["attributes"] = {each["name"]: each.get("text", "") for each in fields.pop("attribute")}
    numbers = {name: int(fields.pop(name)) for name in _INTEGERS if name in fields}
    return shape | {"shape": kind} | numbers | fields


def _mask(fields: dict[str, Any], size: Size) -> dict[str, Any]:
    """Return box and segmentation of a mask: run lengths of its box, line by line, zeros first."""
    left, top, width, height = (int(fields.pop(name)) for name in _MASK)
    lengths = [int(length) for length in fields.pop("rle").split(",")]
    if min(lengths) < 0 or sum(lengths) != width * height or width * height > size[0] * size[1]:
        raise ValueError(f"expected run lengths of a mask of {width} x {height} pixels in a picture of {size}")
    pixels = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(height, width)
    box = box_of_corners(left, top, left + width, top + height)
    return {"bbox": box, "segmentation": placed_mask(pixels, left, top, size)}


READER = _CvatReader()
