"""Shapes of CVAT, as they are in the elements of its XML."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from loader.convert.annotations.coordinates import decode_mask
from loader.convert.annotations.xml_elements import parse_xml
from loader.convert.readers.registry import reader_of
from loader.errors import SampleError
from tests.unit.convert.readers.reading import read

COMMON = 'label="car" source="manual" occluded="1" z_order="0"'
BOX = f'<box {COMMON} xtl="1.5" ytl="2" xbr="11.5" ybr="22"><attribute name="color">red</attribute></box>'
HUGE = f'<mask {COMMON} rle="90000000000" left="0" top="0" width="300000" height="300000"/>'


def image(*shapes: str) -> dict[str, Any]:
    _, values = parse_xml(f'<image width="200" height="100">{"".join(shapes)}</image>'.encode())
    return values


def test_shapes_become_objects() -> None:
    shapes = [
        BOX,
        f'<polygon {COMMON} points="1,1;5.5,1;5,4"/>',
        f'<ellipse {COMMON} cx="50" cy="50" rx="3" ry="4"/>',
        f'<points {COMMON} points="1,2;3,4"/>',
        f'<polyline {COMMON} points="1,2;3,4"/>',
    ]
    assert reader_of([json.dumps(image(*shapes)).encode(), json.dumps(image()).encode()]) == "cvat"
    assert reader_of([json.dumps(image()).encode()]) == ""
    document = read("cvat", image(*shapes, '<tag label="night" source="manual"/>'))
    common = {"category": "car", "source": "manual", "occluded": 1, "z_order": 0}
    assert document.pop("objects") == [
        {**common, "bbox": [1.5, 2, 10, 20], "attributes": {"color": "red"}, "shape": "box"},
        {**common, "bbox": [1, 1, 4.5, 3], "segmentation": [[1, 1, 5.5, 1, 5, 4]], "shape": "polygon"},
        {**common, "bbox": [47, 46, 6, 8], "shape": "ellipse"},
        {**common, "keypoints": [1, 2, 2, 3, 4, 2], "shape": "points"},
        {**common, "points": [1, 2, 3, 4], "shape": "polyline"},
    ]
    assert document == {"width": 200, "height": 100, "tag": [{"label": "night", "source": "manual"}]}


def test_a_mask_is_placed_in_the_picture() -> None:
    mask = f'<mask {COMMON} rle="1, 2, 1, 2" left="10" top="20" width="3" height="2"/>'
    (made,) = read("cvat", image(mask))["objects"]
    expected = np.zeros((100, 200), bool)
    expected[20:22, 10:13] = [[False, True, True], [False, True, True]]
    assert made["bbox"] == [10, 20, 3, 2]
    assert (decode_mask(made["segmentation"]["counts"], (200, 100)) == expected).all()


@pytest.mark.parametrize(
    ("shape", "fault"),
    [
        (BOX.replace('xtl="1.5" ', ""), "'xtl' is missing"),
        (f'<points {COMMON} points="1,2;3"/>', "shorter"),
        (f'<mask {COMMON} rle="9" left="0" top="0" width="2" height="2"/>', "expected run lengths"),
        (HUGE, "expected run lengths"),
    ],
)
def test_damaged_shapes_fail_with_a_reason(shape: str, fault: str) -> None:
    with pytest.raises(SampleError, match=f"CVAT are damaged: .*{fault}"):
        read("cvat", image(shape))
