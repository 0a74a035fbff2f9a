"""LabelMe: a JSON file with the shapes of a picture."""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import msgspec
import numpy as np
from PIL import Image

from ..annotations.coordinates import Mask, rounded
from .reader import Annotation, AnnotationReader, box_of_corners, box_of_points, placed_mask


class _LabelMeReader(AnnotationReader):
    title = "LabelMe"
    extension = "json"

    def recognises(self, data: bytes) -> bool:
        document = msgspec.json.decode(data, type=dict[str, Any])
        return "imagePath" in document and all({"label", "points"} <= shape.keys() for shape in document["shapes"])

    def read(self, annotation: Annotation) -> dict[str, Any]:
        document = msgspec.json.decode(annotation.data, type=dict[str, Any])
        document.pop("imageData", None)  # the picture again, in base64
        size = document.pop("imageWidth", None), document.pop("imageHeight", None)
        width, height = size if all(size) else annotation.size()
        objects = [_object(shape, annotation) for shape in document.pop("shapes")]
        return {**document, "width": width, "height": height, "objects": objects}


def _object(fields: dict[str, Any], annotation: Annotation) -> dict[str, Any]:
    shape: dict[str, Any] = {"category": fields.pop("label")}
    kind, points = fields.get("shape_type", "polygon"), fields.pop("points")
    flat = [rounded(coordinate) for point in points for coordinate in point]
    match kind:
        case "rectangle":
            shape["bbox"] = box_of_points(flat)
        case "polygon":
            shape |= {"bbox": box_of_points(flat), "segmentation": [flat]}
        case "point":
            shape["keypoints"] = [*flat, 2]
        case "mask":
            shape["bbox"] = box_of_points(flat)
            pixels = _mask(base64.b64decode(fields.pop("mask")))
            shape["segmentation"] = placed_mask(pixels, int(flat[0]), int(flat[1]), annotation.size())
        case "circle":
            (x, y), radius = points[0], math.dist(*points)
            shape |= {"bbox": box_of_corners(x - radius, y - radius, x + radius, y + radius)}
        case _:
            shape["points"] = points  # of a line
    return shape | fields


def _mask(data: bytes) -> Mask:
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
            return np.asarray(picture.convert("L")) > 0
    except (OSError, SyntaxError, Image.DecompressionBombError):
        raise ValueError("a mask is not a picture that can be decoded") from None  # Pillow names an address


READER = _LabelMeReader()
