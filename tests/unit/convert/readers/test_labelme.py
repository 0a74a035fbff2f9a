"""Shapes of LabelMe."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loader.convert.annotations.coordinates import decode_mask
from loader.convert.readers.registry import reader_of
from loader.errors import SampleError
from tests.unit.convert.readers.reading import read


def document(*shapes: dict[str, Any]) -> dict[str, Any]:
    fields = {"version": "5.0.1", "imagePath": "a.jpg", "imageData": "/9j/", "imageHeight": 100, "imageWidth": 200}
    return {**fields, "shapes": [{"label": "car", "group_id": None, **shape} for shape in shapes]}


def shape(kind: str, *points: list[float], **fields: Any) -> dict[str, Any]:
    return {"shape_type": kind, "points": [*points], **fields}


def test_shapes_become_boxes_polygons_and_points() -> None:
    shapes = [
        shape("rectangle", [30, 40], [10, 20.5]),
        shape("polygon", [1, 1], [5, 1], [5, 4]),
        shape("circle", [50, 50], [53, 54]),
        shape("point", [7, 8]),
        shape("linestrip", [1, 2], [3, 4]),
    ]
    assert reader_of([json.dumps(document(*shapes)).encode(), json.dumps(document()).encode()], "json") == "labelme"
    read_document = read("labelme", document(*shapes))
    objects = read_document.pop("objects")
    assert read_document == {"version": "5.0.1", "imagePath": "a.jpg", "width": 200, "height": 100}
    assert {each.pop("category") for each in objects} == {"car"}
    assert [{name: value for name, value in each.items() if name != "group_id"} for each in objects] == [
        {"bbox": [10, 20.5, 20, 19.5], "shape_type": "rectangle"},
        {"bbox": [1, 1, 4, 3], "segmentation": [[1, 1, 5, 1, 5, 4]], "shape_type": "polygon"},
        {"bbox": [45, 45, 10, 10], "shape_type": "circle"},
        {"keypoints": [7, 8, 2], "shape_type": "point"},
        {"points": [[1, 2], [3, 4]], "shape_type": "linestrip"},
    ]


def test_a_mask_is_placed_in_the_picture() -> None:
    data = io.BytesIO()
    Image.fromarray(np.full((3, 4), 255, np.uint8)).save(data, "PNG")
    mask = shape("mask", [198, 10], [201, 12], mask=base64.b64encode(data.getvalue()).decode())
    segmentation = read("labelme", document(mask))["objects"][0]["segmentation"]
    expected = np.zeros((100, 200), bool)
    expected[10:13, 198:] = True
    assert (decode_mask(segmentation["counts"], (200, 100)) == expected).all()


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (shape("polygon"), "empty"),
        ({**shape("polygon"), "points": [[1, "x"]]}, "str"),
        ({"shape_type": "polygon"}, "'points' is missing"),
        (shape("mask", [1, 1], [2, 2], mask="AAAA"), "a mask is not a picture"),
    ],
)
def test_damaged_shapes_fail_with_a_reason(wrong: dict[str, Any], fault: str) -> None:
    with pytest.raises(SampleError, match=f"LabelMe are damaged: .*{fault}"):
        read("labelme", document(wrong))
