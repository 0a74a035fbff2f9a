"""Lines of YOLO become boxes, polygons and keypoints in pixels, with the names of their classes."""

from __future__ import annotations

import pytest

from loader.convert.readers.reader import About
from loader.convert.readers.registry import read_about, reader_of
from loader.errors import SampleError
from tests.unit.convert.readers.reading import read

BOX = b"1 0.5 0.5 0.1 0.2\n"


def test_boxes_are_in_pixels_with_the_names_of_their_classes() -> None:
    assert reader_of([BOX, b"", b"0 0 0 0 1e-3\n"], "txt") == "yolo"
    assert reader_of([b"a dog\n"], "txt") == ""
    assert reader_of([b"1 50 50 10 20\n"], "txt") == ""
    box = {"category_id": 1, "category": "dog", "bbox": [90, 40, 20, 20]}
    assert read("yolo", BOX, About({1: "dog"})) == {"width": 200, "height": 100, "objects": [box]}
    assert read("yolo", BOX)["objects"] == [{"category_id": 1, "bbox": [90, 40, 20, 20]}]
    assert read("yolo", b"")["objects"] == []


def test_longer_lines_are_scores_polygons_or_keypoints() -> None:
    assert read("yolo", "0 .5 .5 .1 .2 .9")["objects"][0]["score"] == 0.9
    polygon = {"category_id": 0, "bbox": [20, 10, 100, 40], "segmentation": [[20, 10, 120, 10, 120, 50]]}
    assert read("yolo", "0 .1 .1 .6 .1 .6 .5")["objects"] == [polygon]
    points = "0 .5 .5 .1 .2 .1 .1 2 0 0 0"
    assert read("yolo", points, About({}, (2, 3)))["objects"][0]["keypoints"] == [20, 10, 2, 0, 0, 0]
    assert read("yolo", "0 .5 .5 .1 .2 .1 .1", About({}, (1, 2)))["objects"][0]["keypoints"] == [20, 10, 2]


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("train: x\nnames: [cat, dog]\n", About({0: "cat", 1: "dog"})),
        ("names:\n  0: cat\n  7: 8\nkpt_shape: [17, 3]\n", About({0: "cat", 7: "8"}, (17, 3))),
        ("cat\r\ndog\n", About({0: "cat", 1: "dog"})),
        ("lr0: 0.01\n", About()),
        ("names: 5\n", About()),
        ("names: [", About()),
    ],
)
def test_names_of_classes_are_read_from_files(text: str, about: About) -> None:
    assert read_about("yolo", text.encode()) == about


@pytest.mark.parametrize("line", ["0 .5 .5 .1", "0 50 50 10 20", "cat .5 .5 .1 .2", "0 .1 .1 .6 .1 .6 .5 .5"])
def test_damaged_lines_fail_with_a_reason(line: str) -> None:
    with pytest.raises(SampleError, match="the annotations of YOLO are damaged: "):
        read("yolo", line)
