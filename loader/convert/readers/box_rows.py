"""Rows of boxes: a table with a row for each object of a picture: columns of corners or sizes, or regions of VIA."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from ..annotations.coordinates import rounded
from .reader import Annotation, AnnotationReader, box_of_corners, box_of_points

_CORNERS = ("xmin ymin xmax ymax", "x1 y1 x2 y2", "x0 y0 x1 y1", "left top right bottom")
_SIZES = ("x y w h", "x y width height", "left top width height", "xmin ymin width height", "bbox", "boundingbox")
_PREFIX = re.compile(r"(?:bbox|bb|box)(?=[xy]|left|top|right|bottom|width|height|[wh]$)")  # bbox_x1, bb_left
_CLASSES = ("class", "classname", "label", "labelname", "category", "categoryname", "name")
_REGION, _ATTRIBUTES = "regionshapeattributes", "regionattributes"  # of VIA, which are objects of JSON
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_PICTURE = ("width", "height")
_MAX_SHARE = 1.01  # of the width or height of a picture, as rounded shares have it

Fields = dict[str, Any]


class _BoxRowReader(AnnotationReader):
    title = "rows of boxes"
    extension = "rows"

    def recognises(self, data: bytes) -> bool | None:
        return "bbox" in _object(msgspec.json.decode(data, type=Fields)) or None

    def read(self, annotation: Annotation) -> dict[str, Any]:
        rows = msgspec.json.decode(annotation.data, type=list[Fields])
        objects = [shape for fields in rows if (shape := _object(fields))]
        # The width and height that boxes leave are of the picture.
        sizes = [{name: shape.pop(name) for name in _PICTURE if name in shape} for shape in objects]
        document = sizes[0] if sizes else {}
        boxes = [shape["bbox"] for shape in objects if "bbox" in shape]
        ends = [end for x, y, width, height in boxes for end in (x, y, x + width, y + height)]
        if ends and all(0 <= end <= _MAX_SHARE for end in ends):
            size = annotation.size()
            document = dict(zip(_PICTURE, size, strict=True))
            for box in boxes:
                box[:] = [rounded(share * size[at % 2]) for at, share in enumerate(box)]
        return document | {"objects": objects}


def _object(fields: Fields) -> Fields:
    """Return an object with its class and shape, and with the other columns; nothing for a row without an object."""
    names = {_PREFIX.sub("", re.sub(r"[\W_]+", "", name.lower()), count=1): name for name in fields}
    shape = _region(fields, names) if _REGION in names else _box(fields, names)
    if shape is None:
        return {}
    category = next((names[name] for name in _CLASSES if names.get(name) in fields), "")
    value = fields.pop(category, None)
    named = {} if value is None else {"category" if isinstance(value, str) else "category_id": value}
    return {**named, **shape, **fields}


def _box(fields: Fields, names: Mapping[str, str]) -> Fields | None:
    form = next((form for form in (*_CORNERS, *_SIZES) if names.keys() >= {*form.split()}), None)
    if form is None:
        raise ValueError("no columns of a box")
    values = [fields.pop(names[name]) for name in form.split()]
    if {*map(str, values)} <= {"", "None"}:  # a picture of a class, without a box
        return {}
    numbers = _NUMBER.findall(values[0]) if isinstance(values[0], str) and len(values) == 1 else values
    x, y, right, bottom = map(float, numbers[0] if isinstance(numbers[0], list) else numbers)
    if not all(map(isfinite, (x, y, right, bottom))):
        raise ValueError(f"expected the numbers of a box, found {values!r:.80}")
    return {"bbox": box_of_corners(x, y, right, bottom) if form in _CORNERS else [*map(rounded, (x, y, right, bottom))]}


def _region(fields: Fields, names: Mapping[str, str]) -> Fields | None:
    region, attributes = (
        msgspec.json.decode(value or "{}", type=Fields) if isinstance(value, str) else value
        for value in (fields.pop(names[_REGION]), fields.pop(names.get(_ATTRIBUTES, ""), {}))
    )
    if not region:
        return None
    texts = [value for value in attributes.values() if isinstance(value, str)]
    named = {"category": texts[0]} if len(attributes) == len(texts) == 1 else {"attributes": attributes}
    if "all_points_x" in region:
        pairs = zip(region["all_points_x"], region["all_points_y"], strict=True)
        points = [rounded(float(coordinate)) for pair in pairs for coordinate in pair]
        return named | {"bbox": box_of_points(points), "segmentation": [points]}
    if "width" in region:
        return named | {"bbox": [rounded(float(region[name])) for name in ("x", "y", "width", "height")]}
    x, y, *radii = (float(region[name]) for name in ("cx", "cy", "r", "rx", "ry") if name in region)
    if not radii:
        return named | {"keypoints": [rounded(x), rounded(y), 2]}
    return named | {"bbox": box_of_corners(x - radii[0], y - radii[-1], x + radii[0], y + radii[-1])}


READER = _BoxRowReader()
