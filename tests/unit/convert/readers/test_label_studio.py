"""Regions of Label Studio are in percents of the picture, and of several annotators."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loader.convert.readers.registry import reader_of
from loader.errors import SampleError
from tests.unit.convert.readers.reading import read


def task(*results: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"annotations": [{"id": 7, "result": [*results], **fields}], "predictions": []}


def region(name: str, **value: Any) -> dict[str, Any]:
    return {"id": name, "original_width": 200, "original_height": 100, "value": value}


RECTANGLE = region("a", x=10, y=20, width=5, height=40, rotation=0, rectanglelabels=["cat", "pet"])


def test_regions_become_objects_in_pixels() -> None:
    choice = {"id": "z", "type": "choices", "value": {"choices": ["night"]}}
    regions = [
        RECTANGLE,
        region("b", points=[[0, 0], [50, 0], [50, 50]], closed=True, polygonlabels=["dog"]),
        region("c", x=50, y=50, radiusX=1, radiusY=2, rotation=0, ellipselabels=["dog"]),
        region("d", x=50, y=50, width=0.3, keypointlabels=["nose"]),
        region("e", x=50, y=50, width=10, height=10, rotation=90, rectanglelabels=["car"]),
        choice,
    ]
    assert reader_of([json.dumps(task(*regions)).encode(), json.dumps(task(choice)).encode()]) == "label_studio"
    assert reader_of([json.dumps(task(choice)).encode()]) == ""
    document = read("label_studio", task(*regions))
    objects = document.pop("objects")
    assert document == {
        "annotations": [{"id": 7, "result": [choice]}], "predictions": [], "width": 200, "height": 100,
    }  # fmt: skip
    assert {each.pop("annotation_id") for each in objects} == {7}
    turned, triangle = [100, 50, 100, 70, 90, 70, 90, 50], [0, 0, 100, 0, 100, 50]
    assert objects == [
        {"category": "cat", "labels": ["cat", "pet"], "bbox": [20, 20, 10, 40], "id": "a"},
        {"category": "dog", "bbox": [0, 0, 100, 50], "segmentation": [triangle], "closed": True, "id": "b"},
        {"category": "dog", "bbox": [98, 48, 4, 4], "rotation": 0, "id": "c"},
        {"category": "nose", "keypoints": [100, 50, 2], "id": "d"},
        {"category": "car", "bbox": [90, 50, 10, 20], "segmentation": [turned], "id": "e"},
    ]


def test_the_shape_and_the_label_of_a_region_may_be_two_results() -> None:
    box = {"x": 10, "y": 20, "width": 5, "height": 40, "rotation": 0}
    document = read("label_studio", task(region("a", **box), region("a", **box, labels=["cat"])))
    assert [(each["category"], each["bbox"]) for each in document["objects"]] == [("cat", [20, 20, 10, 40])]


def test_what_an_annotator_cancelled_is_kept_apart() -> None:
    document = task(RECTANGLE, was_cancelled=True)
    assert read("label_studio", document) == {**document, "width": 200, "height": 100, "objects": []}


def test_a_damaged_region_fails_with_a_reason() -> None:
    with pytest.raises(SampleError, match="Label Studio are damaged: "):
        read("label_studio", task(region("a", x="left", y=2, width=3, height=4)))
