"""Boxes of Pascal VOC and of tools that write its XML."""

from __future__ import annotations

import pytest

from loader.convert.readers.registry import reader_of
from loader.errors import SampleError
from tests.unit.convert.readers.reading import read


def box(left: float, top: float, right: float, bottom: float) -> str:
    return f"<bndbox><xmin>{left}</xmin><ymin>{top}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox>"


def document(*objects: str, database: str = "Unknown") -> bytes:
    source = f"<source><database>{database}</database></source>"
    size = "<size><width>500</width><height>375</height><depth>3</depth></size>"
    return f"<annotation><filename>1.jpg</filename>{source}{size}{''.join(objects)}</annotation>".encode()


CAT = f"<object><name>cat</name><pose>Left</pose><difficult>0</difficult>{box(48, 240.5, 195, 371)}</object>"


def test_corners_become_boxes_and_other_fields_stay() -> None:
    assert reader_of([document(CAT), document(), b""], "xml") == "voc"
    cat = {"category": "cat", "bbox": [48, 240.5, 147, 130.5], "pose": "Left", "difficult": 0}
    assert read("voc", document(CAT)) == {
        "filename": "1.jpg", "source": {"database": "Unknown"}, "width": 500, "height": 375, "depth": 3,
        "objects": [cat],
    }  # fmt: skip
    assert read("voc", document())["objects"] == []


def test_pixels_of_the_original_data_count_from_one() -> None:
    part = f"<part><name>head</name>{box(1, 1, 10, 20)}</part>"
    dog = f"<object><name>dog</name>{box(1, 1, 500, 375)}{part}</object>"
    assert read("voc", document(dog, database="The VOC2012 Database"))["objects"] == [
        {"category": "dog", "bbox": [0, 0, 500, 375], "parts": [{"category": "head", "bbox": [0, 0, 10, 20]}]}
    ]


def test_polygons_of_roboflow_are_segmentations() -> None:
    points = "".join(f"<{axis}{n}>{n * 2 + (axis == 'y')}</{axis}{n}>" for n in (1, 2, 3) for axis in "xy")
    polygon = f"<object><name>car</name>{box(2, 3, 6, 7)}<polygon>{points}</polygon></object>"
    assert read("voc", document(polygon))["objects"][0]["segmentation"] == [[2, 3, 4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (document(CAT).replace(b"<xmax>195</xmax>", b""), "'xmax' is missing"),
        (document(CAT).replace(b"195", b"wide"), "could not convert string to float: 'wide'"),
        (document(CAT)[:200], "not valid XML"),
        (b"<html></html>", "expected an element <annotation>, found <html>"),
        (b"<annotation>" + b"<a>" * 200 + b"</a>" * 200 + b"</annotation>", "nested more than 100 deep"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><annotation>&b;</annotation>', "declares entities"),
    ],
)
def test_damaged_annotations_fail_with_a_reason(data: bytes, fault: str) -> None:
    with pytest.raises(SampleError, match=f"Pascal VOC are damaged: .*{fault}"):
        read("voc", data)
