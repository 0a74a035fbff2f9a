"""Annotations of COCO follow their picture: drawn after a change, they cover what they covered before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image, ImageDraw
from pycocotools import mask as reference

from loader.convert.annotations.coordinates import (
    TRANSPOSES,
    PictureChange,
    area_of,
    decode_mask,
    encode_mask,
    move_document,
)
from loader.errors import SampleError

ORIENTATIONS = st.sampled_from([1, *TRANSPOSES])


def transformed(picture: Image.Image, change: PictureChange, resample: Image.Resampling) -> Image.Image:
    if change.is_turned and change.orientation in TRANSPOSES:
        picture = picture.transpose(TRANSPOSES[change.orientation])
    return picture.resize(change.written, resample)


@st.composite
def changes(draw: st.DrawFn) -> PictureChange:
    """Return a change that enlarges, so that what is drawn afterwards has the precision to be compared."""
    width, height, orientation = draw(st.integers(8, 60)), draw(st.integers(8, 60)), draw(ORIENTATIONS)
    turned = (height, width) if orientation >= 5 else (width, height)
    written = tuple(draw(st.integers(side, 3 * side)) for side in turned)
    return PictureChange(stored=(width, height), written=written, orientation=orientation, is_turned=True)  # type: ignore[arg-type]


def moved_object(change: PictureChange, **fields: Any) -> dict[str, Any]:
    width, height = change.stored
    document = move_document({"width": width, "height": height, "objects": [fields]}, change)
    assert (document["width"], document["height"]) == change.written
    [moved] = document["objects"]
    return dict(moved)


def fill(size: tuple[int, int], corners: list[tuple[float, float]]) -> Any:
    """Return the pixels whose centers are in a polygon, as a mask."""
    [mask] = reference.frPyObjects([[c for corner in corners for c in corner]], size[1], size[0])
    return decode_mask(mask["counts"].decode(), size)


@given(change=changes(), data=st.data())
def test_boxes_hold_the_same_pixels(change: PictureChange, data: st.DataObject) -> None:
    width, height = change.stored
    left, top = data.draw(st.integers(0, width - 2)), data.draw(st.integers(0, height - 2))
    right, bottom = data.draw(st.integers(left + 1, width)), data.draw(st.integers(top + 1, height))
    picture = Image.new("L", change.stored)
    picture.paste(255, (left, top, right, bottom))
    moved = moved_object(change, bbox=[left, top, right - left, bottom - top], area=(right - left) * (bottom - top))
    expected = transformed(picture, change, Image.Resampling.NEAREST).getbbox()
    assert expected is not None
    x, y, w, h = moved["bbox"]
    assert np.abs(np.subtract(expected, [x, y, x + w, y + h])).max() <= 0.51, "the centers of pixels decide"
    assert moved["area"] == pytest.approx(w * h, rel=1e-3)


@given(change=changes(), data=st.data())
def test_polygons_cover_the_same_pixels(change: PictureChange, data: st.DataObject) -> None:
    width, height = change.stored
    center, radius = (width / 2, height / 2), min(width, height) / 2
    angles = sorted(data.draw(st.lists(st.floats(0, 6.28), min_size=3, max_size=7, unique=True)))
    corners = [(center[0] + radius * float(np.cos(a)), center[1] + radius * float(np.sin(a))) for a in angles]
    flat = [coordinate for corner in corners for coordinate in corner]
    moved = moved_object(change, segmentation=[flat], area=area_of({"segmentation": [flat]}))
    points = moved["segmentation"][0]
    pairs = [*zip(points[::2], points[1::2], strict=True)]
    # Both drawings differ by the pixels of the first one at most, along the outline.
    drawn = fill(change.written, pairs)
    before = Image.fromarray(fill(change.stored, corners).astype(np.uint8))
    expected = np.asarray(transformed(before, change, Image.Resampling.NEAREST))
    scale = max(change.written[0] / change.stored[0], change.written[1] / change.stored[1], 1)
    scale = max(scale, change.written[0] / change.stored[1], change.written[1] / change.stored[0])
    outline = Image.new("L", change.written)
    ImageDraw.Draw(outline).line([*pairs, pairs[0]], fill=255, width=int(4 * scale) + 4, joint="curve")
    for x, y in pairs:
        ImageDraw.Draw(outline).circle((x, y), 2 * scale + 2, fill=255)
    assert not (drawn != expected.astype(bool))[np.asarray(outline) == 0].any()
    assert moved["area"] == pytest.approx(area_of({"segmentation": [points]}), rel=1e-2, abs=0.5)
    assert moved_object(change, segmentation=flat)["segmentation"] == points


@given(change=changes(), data=st.data())
def test_keypoints_name_the_same_pixel(change: PictureChange, data: st.DataObject) -> None:
    width, height = change.stored
    x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    picture = Image.new("L", change.stored)
    picture.putpixel((x, y), 255)
    found = np.argwhere(np.asarray(transformed(picture, change, Image.Resampling.NEAREST)))
    points = moved_object(change, keypoints=[x, y, 2, 0, 0, 0])["keypoints"]
    assert points[2:] == [2, 0, 0, 0]
    low, high = found.min(axis=0), found.max(axis=0)
    assert np.abs(np.add(low, high) / 2 - points[1::-1]).max() <= 1


@given(change=changes(), seed=st.integers(0, 1000), as_text=st.booleans())
def test_masks_are_those_of_the_resized_picture(change: PictureChange, seed: int, as_text: bool) -> None:
    width, height = change.stored
    mask = np.random.default_rng(seed).random((height, width)) < seed / 1000
    counts = encode_mask(mask, as_text=as_text)
    moved = moved_object(change, segmentation={"counts": counts, "size": [height, width]})["segmentation"]
    expected = transformed(Image.fromarray(mask.astype(np.uint8)), change, Image.Resampling.NEAREST)
    assert moved["size"] == [change.written[1], change.written[0]]
    assert isinstance(moved["counts"], str) == as_text
    assert np.array_equal(decode_mask(moved["counts"], change.written), np.asarray(expected) > 0)


@given(seed=st.integers(0, 1000), width=st.integers(1, 40), height=st.integers(1, 40))
def test_run_lengths_are_those_of_pycocotools(seed: int, width: int, height: int) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < seed / 1000
    text = encode_mask(mask, as_text=True)
    assert text == reference.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()
    for counts in (text, encode_mask(mask, as_text=False)):
        assert np.array_equal(decode_mask(counts, (width, height)), mask)
        assert area_of({"segmentation": {"counts": counts}}) == mask.sum()


@pytest.mark.parametrize("counts", ["\x7f", "P" * 99, "a", "1", [1, 2], [-1, 13], [2.5], None, {}, "12" * 9])
def test_damaged_run_lengths_are_refused(counts: Any) -> None:
    with pytest.raises(SampleError):
        decode_mask(counts, (4, 3))


CHANGE = PictureChange(stored=(40, 20), written=(10, 20), orientation=6, is_turned=True)


def test_annotations_of_an_upright_picture_are_not_turned() -> None:
    """Tools that show pictures upright note the upright size."""
    document = {"width": 20, "height": 40, "objects": [{"bbox": [0, 0, 20, 4]}]}
    moved = {"width": 10, "height": 20, "objects": [{"bbox": [0, 0, 10, 2]}]}
    assert move_document(document, CHANGE) == moved
    resized = PictureChange(stored=(40, 20), written=(20, 10), orientation=6)
    assert move_document(document, resized) == moved, "pixels and EXIF stay as they are"
    stored = {"width": 40, "height": 20, "objects": [{"bbox": [0, 0, 40, 4]}]}
    assert move_document(stored, resized) == {"width": 20, "height": 10, "objects": [{"bbox": [0, 0, 20, 2]}]}


def test_annotations_of_another_size_are_refused() -> None:
    with pytest.raises(SampleError, match="for a picture of 80 × 40 pixels, found one of 40 × 20"):
        move_document({"width": 80, "height": 40, "objects": []}, CHANGE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bbox": [1, 2, 3]}, "expected x, y, width and height as 'bbox'"),
        ({"bbox": "1 2 3 4"}, "expected x, y, width and height"),
        ({"segmentation": [[1, 2, 3]]}, "expected polygons"),
        ({"segmentation": [["a"]]}, "expected polygons"),
        ({"segmentation": "x"}, "expected polygons"),
        ({"segmentation": {"counts": [800], "size": [40, 20]}}, r"expected a mask of size \[20, 40\]"),
        ({"segmentation": {"counts": [7], "size": [20, 40]}}, "fill 7 pixels; expected 800"),
        ({"keypoints": [1, 2]}, "found 2 values"),
    ],
)
def test_damaged_annotations_are_refused(fields: Any, message: str) -> None:
    with pytest.raises(SampleError, match=message):
        move_document({"objects": [fields]}, CHANGE)


def test_empty_annotations_and_other_values_stay() -> None:
    fields: dict[str, Any] = {
        "id": 3,
        "bbox": None,
        "segmentation": [],
        "area": None,
        "iscrowd": 0,
        "attributes": {"occluded": True},
    }
    assert move_document({"file_name": "a.jpg", "objects": [fields]}, CHANGE) == {
        "file_name": "a.jpg",
        "objects": [fields],
    }


def test_whole_bodies_and_segments_are_moved() -> None:
    change = PictureChange(stored=(40, 20), written=(20, 10))
    document = {
        "objects": [{"face_box": [2, 4, 6, 8], "foot_kpts": [11, 3, 1], "segments_info": [{"bbox": [2, 2, 4, 4]}]}]
    }
    assert move_document(document, change) == {
        "objects": [{"face_box": [1, 2, 3, 4], "foot_kpts": [5.25, 1.25, 1], "segments_info": [{"bbox": [1, 1, 2, 2]}]}]
    }
