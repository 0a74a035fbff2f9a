"""Lines of YOLO become boxes, polygons and keypoints in pixels, with the names of their classes."""

from __future__ import annotations

from codecs import BOM_UTF8

import pytest

from loader.convert.readers.reader import About
from loader.convert.readers.registry import read_about, reader_of
from loader.errors import ConfigError, SampleError
from tests.unit.convert.readers.reading import read

BOX = b"1 0.5 0.5 0.1 0.2\n"


def test_boxes_are_in_pixels_with_the_names_of_their_classes() -> None:
    assert reader_of([BOX, b"", b"0 0 0 0 1e-3\n"], "txt") == "yolo"
    assert reader_of([b"a dog\n"], "txt") == ""
    assert reader_of([b"1 50 50 10 20\n"], "txt") == ""
    assert reader_of([BOM_UTF8 + BOX], "txt") == "yolo"
    assert read("yolo", BOM_UTF8 + BOX)["objects"] == [{"category_id": 1, "bbox": [90, 40, 20, 20]}]
    assert reader_of([b"0 .5 .5 .4 .4 .3 .3 2 .4 .4 1 0 0 0\n"], "txt") == "yolo"
    assert reader_of([b"0 .5 .5 .4 .4 .3 .3 3\n"], "txt") == ""
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
    ("name", "text", "about"),
    [
        ("data.yaml", "train: x\nnames: [cat, dog]\n", About({0: "cat", 1: "dog"})),
        ("data.yaml", "names:\n  0: cat\n  7: 8\nkpt_shape: [17, 3]\n", About({0: "cat", 7: "8"}, (17, 3))),
        ("x.yml", '{"nc": 2, "names": ["cat: a", dog]}', About({0: "cat: a", 1: "dog"})),
        ("x.yml", "  nc: 2\n  'names':\n    - cat\n    - dog\n", About({0: "cat", 1: "dog"})),
        ("classes.txt", "cat\r\ndog\n", About({0: "cat", 1: "dog"})),
        ("obj.names", "traffic light: red\nnames: x\n", About({0: "traffic light: red", 1: "names: x"})),
        ("hyp.yaml", "lr0: 0.01\n", About()),
        ("hyp.yaml", "- 0.01\n", About()),
        ("mkdocs.yml", "slug: !!python/name:slug\n", About()),
    ],
)
def test_names_of_classes_are_read_from_files(name: str, text: str, about: About) -> None:
    assert read_about("yolo", name, BOM_UTF8 + text.encode()) == about


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("names: 5\n", "'int' object is not iterable"),
        ("names: [", "line 2, column 1: this is not plain YAML"),
        ("names: !!python/object/apply:os.system [x]\n", "could not determine a constructor"),
    ],
)
def test_a_damaged_file_of_names_is_named(text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=f"a/data.yaml cannot be read: .*{fault}"):
        read_about("yolo", "a/data.yaml", text.encode())


@pytest.mark.parametrize(
    "line",
    [
        "0 .5 .5 .1",
        "0 50 50 10 20",
        "cat .5 .5 .1 .2",
        "0 .1 .1 .6 .1 .6 .5 .5",
        "0 1.5 .5 .1 .2",
        "0 .5 .5 .1 .2 .1 .1 2 0 0 0",  # keypoints, but no file says so
    ],
)
def test_damaged_lines_fail_with_a_reason(line: str) -> None:
    with pytest.raises(SampleError, match="the annotations of YOLO are damaged: "):
        read("yolo", line)


def test_a_class_without_a_name_fails() -> None:
    with pytest.raises(SampleError, match="class 7 has no name: names are of 0 to 1"):
        read("yolo", "7 .5 .5 .1 .2", About({0: "cat", 1: "dog"}))
