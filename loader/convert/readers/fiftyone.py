"""FiftyOne: samples of ``samples.json``, whose shapes are shares of the picture."""

from __future__ import annotations

from typing import Any

import msgspec

from ..annotations.coordinates import Size, rounded
from .reader import Annotation, AnnotationReader, box_of_corners, box_of_points

_LISTS = {"Detections": "detections", "Polylines": "polylines", "Keypoints": "keypoints"}


class _FiftyOneReader(AnnotationReader):
    title = "FiftyOne"

    def recognises(self, data: bytes) -> bool | None:
        document = msgspec.json.decode(data, type=dict[str, Any])
        return True if "_media_type" in document and any(map(_list_in, document.values())) else None

    def read(self, annotation: Annotation) -> dict[str, Any]:
        document = msgspec.json.decode(annotation.data, type=dict[str, Any])
        size = width, height = annotation.size()
        objects: list[dict[str, Any]] = []
        for name in [*document]:
            if key := _list_in(document[name]):
                objects += [_object(each, size) | {"field": name} for each in document[name].pop(key)]
        return {**document, "width": width, "height": height, "objects": objects}


def _list_in(value: object) -> str:
    return _LISTS.get(value.get("_cls", ""), "") if isinstance(value, dict) else ""


def _object(fields: dict[str, Any], size: Size) -> dict[str, Any]:
    shape: dict[str, Any] = {"category": fields.pop("label")} if fields.get("label") else {}
    width, height = size
    if "bounding_box" in fields:
        x, y, across, down = fields.pop("bounding_box")
        shape["bbox"] = box_of_corners(x * width, y * height, (x + across) * width, (y + down) * height)
    elif fields.get("_cls") == "Keypoint":
        shape["keypoints"] = [
            value
            for x, y in fields.pop("points")
            for value in ((0, 0, 0) if x is None or y is None else (rounded(x * width), rounded(y * height), 2))
        ]
    else:
        lines = [
            [rounded(coordinate) for x, y in line for coordinate in (x * width, y * height)]
            for line in fields.pop("points")
        ]
        # Only closed lines have an inside.
        shape |= {"segmentation" if fields.get("closed") else "points": lines}
        shape["bbox"] = box_of_points([coordinate for line in lines for coordinate in line])
    return shape | fields


READER = _FiftyOneReader()
