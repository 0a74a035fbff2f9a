"""Rows of a table that are boxes of one picture become its objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loader.convert.readers.registry import reader_of
from loader.errors import SampleError
from tests.unit.convert.readers.reading import read


def objects_of(*rows: dict[str, Any]) -> Any:
    return read("box_rows", json.dumps(rows))["objects"]


@pytest.mark.parametrize(
    ("columns", "bbox"),
    [
        ({"xmin": 1, "ymin": 2, "xmax": 9, "ymax": 12}, [1, 2, 8, 10]),
        ({"bbox_x1": "1", "bbox_y1": "2", "bbox_x2": "9", "bbox_y2": "12"}, [1, 2, 8, 10]),
        ({"x": 1, "y": 2, "w": 8, "h": 10.5}, [1, 2, 8, 10.5]),
        ({"bb_left": 1, "bb_top": 2, "bb_width": 8, "bb_height": 10}, [1, 2, 8, 10]),
        ({"bbox": "[834.0, 222.0, 56.0, 36.0]"}, [834, 222, 56, 36]),
        ({"BBox": [1, 2, 3, 4]}, [1, 2, 3, 4]),
    ],
)
def test_columns_of_corners_and_sizes_are_boxes(columns: dict[str, Any], bbox: list[float]) -> None:
    assert reader_of([json.dumps({**columns, "class": "cat"}).encode()], "rows") == "box_rows"
    assert objects_of({**columns, "class": "cat", "id": 7}) == [{"category": "cat", "bbox": bbox, "id": 7}]


def test_shares_become_pixels_and_the_size_of_the_picture_is_its_own() -> None:
    open_images = {"ImageID": "a", "LabelName": "/m/1", "XMin": 0.25, "XMax": 0.5, "YMin": 0.1, "YMax": 1.0}
    whole = read("box_rows", json.dumps([open_images]))
    assert whole == {
        "width": 200,
        "height": 100,
        "objects": [{"category": "/m/1", "bbox": [50, 10, 50, 90], "ImageID": "a"}],
    }
    row = {"width": 64, "height": 48, "class": 3, "xmin": 1, "ymin": 1, "xmax": 2, "ymax": 2}
    assert read("box_rows", json.dumps([row])) == {
        "width": 64,
        "height": 48,
        "objects": [{"category_id": 3, "bbox": [1, 1, 1, 1]}],
    }


@pytest.mark.parametrize(
    ("region", "shape"),
    [
        ({"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4}, {"bbox": [1, 2, 3, 4]}),
        (
            {"name": "polygon", "all_points_x": [1, 5, 3], "all_points_y": [2, 2, 8]},
            {"bbox": [1, 2, 4, 6], "segmentation": [[1, 2, 5, 2, 3, 8]]},
        ),
        ({"name": "circle", "cx": 10, "cy": 10, "r": 2}, {"bbox": [8, 8, 4, 4]}),
        ({"name": "ellipse", "cx": 10, "cy": 10, "rx": 2, "ry": 3}, {"bbox": [8, 7, 4, 6]}),
        ({"name": "point", "cx": 10, "cy": 11}, {"keypoints": [10, 11, 2]}),
    ],
)
def test_regions_of_via_are_shapes(region: dict[str, Any], shape: dict[str, Any]) -> None:
    row = {"region_shape_attributes": json.dumps(region), "region_attributes": '{"type":"cat"}', "region_id": 0}
    assert objects_of(row) == [{"category": "cat", **shape, "region_id": 0}]
    assert objects_of({"region_shape_attributes": "{}", "region_attributes": "{}"}) == []


def test_rows_without_a_box_keep_their_class() -> None:
    row = {"class_name": "No finding", "x_min": "", "y_min": "", "x_max": "", "y_max": ""}
    assert objects_of(row) == [{"category": "No finding"}]
    assert reader_of([json.dumps(row).encode()], "rows") == ""
    assert reader_of([b'{"score": 1}'], "rows") == ""


@pytest.mark.parametrize("bbox", ["[1, 2, 3]", "a b c d", [1, 2, 3, None]])
def test_damaged_boxes_fail_with_a_reason(bbox: object) -> None:
    with pytest.raises(SampleError, match="the annotations of rows of boxes are damaged: "):
        objects_of({"bbox": bbox})
