"""Label Studio: tasks of a JSON export, whose results are in percents of the picture."""

from __future__ import annotations

import cmath
import math
from typing import Any

import msgspec

from ..annotations.coordinates import Size, rounded
from .reader import Annotation, AnnotationReader, box_of_corners, box_of_points


class _LabelStudioReader(AnnotationReader):
    title = "Label Studio"

    def recognises(self, data: bytes) -> bool | None:
        document = msgspec.json.decode(data, type=dict[str, Any])
        return any(_is_region(result) for each in document["annotations"] for result in each["result"]) or None

    def read(self, annotation: Annotation) -> dict[str, Any]:
        document = msgspec.json.decode(annotation.data, type=dict[str, Any])
        size = annotation.size()
        objects: list[dict[str, Any]] = []
        for each in document.get("annotations", []):
            if each.get("was_cancelled"):
                continue
            # The shape and the label of a region may be two results with one id.
            regions: dict[object, dict[str, Any]] = {}
            for position, result in enumerate(each["result"]):
                if _is_region(result):
                    known = regions.setdefault(result.get("id", position), {"value": {}})
                    known |= {**result, "value": known["value"] | result["value"]}
            objects += [_object(region, size) | {"annotation_id": each.get("id")} for region in regions.values()]
            each["result"] = [result for result in each["result"] if not _is_region(result)]
        return {**document, "width": size[0], "height": size[1], "objects": objects}


def _is_region(result: dict[str, Any]) -> bool:
    value = result.get("value", {})
    return "points" in value or {"x", "y"} <= value.keys()


def _object(region: dict[str, Any], size: Size) -> dict[str, Any]:
    value, scales = region.pop("value"), (size[0] / 100, size[1] / 100)
    # The labels of a region are in a list that is named after its kind, such as rectanglelabels.
    labels: list[str] = next((value.pop(name) for name in [*value] if name.endswith("labels")), [])
    shape: dict[str, Any] = {"category": labels[0]} if labels else {}
    shape |= {"labels": labels} if len(labels) > 1 else {}
    pairs = value.pop("points", None) or [(value.pop("x"), value.pop("y"))]
    points = [coordinate * scale for pair in pairs for coordinate, scale in zip(pair, scales, strict=True)]
    x, y = points[:2]
    if len(pairs) > 1:
        shape |= {"bbox": box_of_points(points), "segmentation": [[*map(rounded, points)]]}
    elif "radiusX" in value:
        x_radius, y_radius = value.pop("radiusX") * scales[0], value.pop("radiusY") * scales[1]
        shape["bbox"] = box_of_corners(x - x_radius, y - y_radius, x + x_radius, y + y_radius)
    elif "height" in value:
        width, height = value.pop("width") * scales[0], value.pop("height") * scales[1]
        shape |= _rectangle(x, y, width, height, value.pop("rotation", 0))
    else:
        value.pop("width", None)  # of the dot that is shown
        shape["keypoints"] = [rounded(x), rounded(y), 2]
    others = {name: item for name, item in region.items() if name not in ("original_width", "original_height")}
    return {**shape, **value, **others}


def _rectangle(x: float, y: float, width: float, height: float, degrees: float) -> dict[str, Any]:
    """Return the box of a rectangle, which is turned around its first corner; if it is turned, its corners, too."""
    if not degrees:
        return {"bbox": box_of_corners(x, y, x + width, y + height)}
    turn = cmath.rect(1, math.radians(degrees))
    corners = [complex(x, y) + turn * side for side in (0, width, complex(width, height), complex(0, height))]
    points = [coordinate for corner in corners for coordinate in (corner.real, corner.imag)]
    return {"bbox": box_of_points(points), "segmentation": [[*map(rounded, points)]]}


READER = _LabelStudioReader()
