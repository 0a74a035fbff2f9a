"""Pascal VOC: an XML file with the boxes of a picture, also of LabelImg, Roboflow and ImageNet."""

from __future__ import annotations

from typing import Any

from ..annotations.xml_elements import parse_xml
from .reader import Annotation, AnnotationReader, box_of_corners, box_of_points

_NUMBERS = ("truncated", "difficult", "occluded", "segmented", "width", "height", "depth")
_FROM_ONE = "The VOC"  # begins the name of the database whose boxes name their first and last pixel, counted from 1
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


class _VocReader(AnnotationReader):
    title = "Pascal VOC"
    extension = "xml"

    def recognises(self, data: bytes) -> bool:
        tag, values = parse_xml(data)
        objects = values.get("object", [])
        are_boxes = all({"name", "bndbox"} <= each.keys() for each in objects)
        return tag == "annotation" and are_boxes and bool(objects or "size" in values)

    def read(self, annotation: Annotation) -> dict[str, Any]:
        tag, values = parse_xml(annotation.data)
        if tag != "annotation":
            raise ValueError(f"expected an element <annotation>, found <{tag}>")
        objects = values.pop("object", [])
        fields = _plain(values)
        fields |= fields.pop("size", None) or {}
        source = fields.get("source") or {}
        starts_at_one = str(source.get("database", "")).startswith(_FROM_ONE)
        return {**fields, "objects": [_object(each, starts_at_one=starts_at_one) for each in objects]}


def _object(values: dict[str, Any], *, starts_at_one: bool) -> dict[str, Any]:
    boxes, polygons, parts = (values.pop(name, []) for name in ("bndbox", "polygon", "part"))
    fields: dict[str, Any] = {"category": values.pop("name")[0]}
    for box in boxes:
        left, top, right, bottom = (float(box[name][0]) for name in _CORNERS)
        fields["bbox"] = box_of_corners(left - starts_at_one, top - starts_at_one, right, bottom)
    for polygon in polygons:
        # Roboflow numbers the points: x1, y1, x2, y2 …
        count = len(polygon) // 2
        points = [float(polygon[f"{axis}{n}"][0]) for n in range(1, count + 1) for axis in "xy"]
        fields.setdefault("segmentation", []).append(points)
        fields.setdefault("bbox", box_of_points(points))
    if parts:
        fields["parts"] = [_object(part, starts_at_one=starts_at_one) for part in parts]
    return fields | _plain(values)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values without the lists of single elements, and numbers where the format has numbers."""
    plain: dict[str, Any] = {}
    for name, value in values.items():
        items = (
            [_plain(item) if isinstance(item, dict) else item for item in value] if isinstance(value, list) else value
        )
        item = items[0] if isinstance(items, list) and len(items) == 1 else items
        plain[name] = int(item) if name in _NUMBERS and isinstance(item, str) and item.isdecimal() else item
    return plain


READER = _VocReader()
