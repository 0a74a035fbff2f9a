"""Lines of KITTI are boxes in the picture and in space."""

from __future__ import annotations

import pytest

from loader.convert.readers.registry import reader_of
from loader.errors import SampleError
from tests.unit.convert.readers.reading import read

LINE = "Car 0.00 2 -1.57 10.5 20 30.5 40 1.6 1.7 4.0 0.1 1.8 14.2 -1.56"


def test_a_line_is_a_box_with_its_place_in_space() -> None:
    assert reader_of([LINE.encode(), b""], "txt") == "kitti"
    assert reader_of([b"P0: 7.2 0 6.0 0 0 7.2 1.7 0 0 0 1 0\n"], "txt") == ""
    car = {
        "category": "Car", "bbox": [10.5, 20, 20, 20], "truncated": 0.0, "occluded": 2, "alpha": -1.57,
        "dimensions": [1.6, 1.7, 4.0], "location": [0.1, 1.8, 14.2], "rotation_y": -1.56,
    }  # fmt: skip
    assert read("kitti", f"{LINE}\n{LINE} 0.9\n") == {"objects": [car, {**car, "score": 0.9}]}


@pytest.mark.parametrize(
    ("line", "fault"),
    [(LINE.rpartition(" ")[0], "expected 15 columns, found 14: 'Car"), (LINE.replace("20", "x"), "float: 'x'")],
)
def test_a_damaged_line_fails_with_a_reason(line: str, fault: str) -> None:
    with pytest.raises(SampleError, match=f"KITTI are damaged: .*{fault}"):
        read("kitti", line)
