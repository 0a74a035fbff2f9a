"""Shapes in the samples of FiftyOne are shares of the picture."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loader.convert.readers.registry import reader_of
from loader.errors import SampleError
from tests.unit.convert.readers.reading import read

SUNNY = {"_cls": "Classification", "label": "sunny"}


def sample(**fields: Any) -> dict[str, Any]:
    return {"_media_type": "image", **fields}


def detections(*boxes: Any) -> dict[str, Any]:
    each = [{"_cls": "Detection", "label": "cat", "bounding_box": box, "confidence": 0.5} for box in boxes]
    return {"_cls": "Detections", "detections": each}


def test_shapes_of_all_fields_become_objects() -> None:
    line = {"_cls": "Polyline", "label": "road", "points": [[[0, 0], [0.5, 0.5], [0, 0.5]]], "closed": True}
    points = {"_cls": "Keypoint", "label": "eyes", "points": [[0.1, 0.1], [None, None]]}
    document = sample(
        boxes=detections([0.1, 0.2, 0.5, 0.5]),
        lanes={"_cls": "Polylines", "polylines": [line]},
        eyes={"_cls": "Keypoints", "keypoints": [points]},
        weather=SUNNY,
    )
    other = sample(weather=SUNNY)
    assert reader_of([json.dumps(document).encode(), json.dumps(other).encode()]) == "fiftyone"
    assert reader_of([json.dumps(other).encode()]) == ""
    converted = read("fiftyone", document)
    polygon = {"category": "road", "bbox": [0, 0, 100, 50], "segmentation": [[0, 0, 100, 50, 0, 50]]}
    assert converted["objects"] == [
        {"category": "cat", "bbox": [20, 20, 100, 50], "_cls": "Detection", "confidence": 0.5, "field": "boxes"},
        {**polygon, "_cls": "Polyline", "closed": True, "field": "lanes"},
        {"category": "eyes", "keypoints": [20, 10, 2, 0, 0, 0], "_cls": "Keypoint", "field": "eyes"},
    ]
    assert (converted["width"], converted["height"], converted["weather"]) == (200, 100, SUNNY)


@pytest.mark.parametrize("box", [[0.1, 0.2, 0.5], "box", [0.1, 0.2, 0.5, None]])
def test_a_damaged_box_fails_with_a_reason(box: Any) -> None:
    with pytest.raises(SampleError, match="FiftyOne are damaged: "):
        read("fiftyone", sample(boxes=detections(box)))
