"""Coordinates are recognized in parts of any layout, and other numbers are not."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import numpy as np
import pytest

from loader.convert.annotations.known_coordinates import find_coordinates


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("json", {"objects": {"bbox": [[3, 4, 20, 30]], "category": [1]}}, "json: objects.bbox"),
        ("json", {"objects": [{"bbox": None}, {"bbox": [3, 4, 20, 30]}]}, "json: objects.bbox"),
        ("json", {"shapes": [{"label": "dog", "points": [[1, 2], [30, 4]]}]}, "json: shapes.points"),
        ("json", {"regions": [{"x": 3, "y": 4, "width": 20, "height": 9, "phrase": "a"}]}, "json: regions.x, y"),
        ("json", {"xmin": 4, "ymin": 9, "xmax": 20, "ymax": 30, "class": "wheat"}, "json: xmin, ymin"),
        ("json", {"face_box": "[12, 30, 40, 9]"}, "json: face_box"),
        ("json", {"BoundingBox": [12, 30, 40, 9]}, "json: BoundingBox"),
        ("json", {"conversations": [{"value": '{"bbox_2d": [10, 20, 300, 400]}'}]}, "json: conversations.value"),
        ("json", {"segmentation": {"counts": [3, 4], "size": [7, 1]}}, "json: segmentation"),
        ("boxes.json", [[1, 2, 30, 4]], "boxes.json"),
        ("keypoints.txt", "[[1, 2], [3, 4]]", "keypoints.txt"),
        ("txt", "238 24 300 50 dog\n10 20 30 44 cat", "txt"),
        ("txt", "377,117,463,117,465,130,378,130,Genaxis Theatre\n493,115,519,115,519,131,493,131,[06]", "txt"),
        ("xml", "<annotation><object><bndbox><xmin>4</xmin></bndbox></object></annotation>", "xml"),
    ],
)
def test_absolute_coordinates_are_found(name: str, value: Any, place: str) -> None:
    data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    assert find_coordinates(name, data) == (place, False)
    if name == "json":
        assert find_coordinates("json.gz", gzip.compress(data)) == (place.replace("json", "json.gz", 1), False)
        assert find_coordinates("mp", msgspec.msgpack.encode(value)) == (place.replace("json", "mp", 1), False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("txt", "0 0.5 0.5 0.25 0.25\n17 0.1 0.2 0.05 0.1\n"),
        ("txt", "3 0.1 0.1 0.9 0.1 0.9 0.9 0.1 0.9"),
        ("json", '{"bbox": [0.1, 0.2, 0.5, 1.0]}'),
        ("json", '{"text": "the dog <box>(120,30),(400,500)</box>"}'),
        ("json", '{"text": "<loc0012><loc0100> dog"}'),
    ],
)
def test_relative_coordinates_are_found(name: str, text: str) -> None:
    found = find_coordinates(name, text.encode())
    assert found is not None
    assert found.is_relative


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json", '{"caption": "a box of 12 eggs", "points": 12, "box": "red", "width": 640, "height": 480}'),
        ("json", '{"bbox": [], "segmentation": null, "objects": {"bbox": [[]]}}'),
        ("json", '{"conversations": [{"from": "human", "value": "What is at 10, 20, 30, 40?"}]}'),
        ("json", '{"x": "a", "y": "b", "embedding": [3, 4, 5]}'),
        ("json", "{"),
        ("json", "[" * 3000 + "]" * 3000),
        ("txt", "a photo of 2 dogs, 3 cats and 4 birds"),
        ("txt", "1"),
        ("txt", ""),
        ("cls", "3"),
        ("xml", "<annotation><caption>a</caption></annotation>"),
        ("json.gz", "not compressed"),
    ],
)
def test_other_values_are_no_coordinates(name: str, text: str) -> None:
    assert find_coordinates(name, text.encode()) is None


def test_arrays_are_known_by_their_names() -> None:
    data = np.zeros(4).tobytes()
    assert find_coordinates("boxes.npy", data) == ("boxes.npy", False)
    assert find_coordinates("npy", data) is None
    assert find_coordinates("embedding.npy", data) is None
