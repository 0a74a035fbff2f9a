"""Corners of DOTA become boxes and polygons."""

from __future__ import annotations

import pytest

from loader.convert.readers.registry import reader_of
from loader.errors import SampleError
from tests.unit.convert.readers.reading import read

HEAD = "imagesource:GoogleEarth\ngsd:0.14\n"
SHIP = "10.0 11.0 20.0 12.0 19.0 21.0 9.5 20.0 ship 1\n"


def test_corners_become_boxes_and_polygons() -> None:
    assert reader_of([f"{HEAD}{SHIP}".encode(), SHIP.encode(), HEAD.encode()], "txt") == "dota"
    assert reader_of([HEAD.encode()], "txt") == ""
    assert reader_of([b"0 0.5 0.5 0.1 0.1\n"], "txt") == "yolo"
    ship = {"category": "ship", "bbox": [9.5, 11, 10.5, 10], "segmentation": [[10, 11, 20, 12, 19, 21, 9.5, 20]]}
    document = {"imagesource": "GoogleEarth", "gsd": "0.14", "objects": [ship | {"difficult": 1}]}
    assert read("dota", HEAD + SHIP) == document
    assert read("dota", HEAD)["objects"] == []


@pytest.mark.parametrize("line", ["10 11 20 11 20 21 10 21 ship", "10 11 20 11 20 21 10 x ship 0"])
def test_damaged_lines_fail_with_a_reason(line: str) -> None:
    with pytest.raises(SampleError, match="the annotations of DOTA are damaged: "):
        read("dota", line)
