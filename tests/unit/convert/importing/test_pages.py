"""Pages of TIFF pictures become parts if that is requested, and later frames are counted otherwise."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loader.convert.importing.contents import ContentReader
from loader.convert.importing.pictures import PictureOptions
from loader.convert.importing.plan import ImportPlan
from loader.convert.importing.run import run_import
from loader.convert.importing.sample_contents import has_frames, read_sample
from loader.convert.rows.row import Row, ValueRef
from loader.convert.sources.detect import open_source
from loader.convert.tables.source_options import SourceOptions
from loader.errors import SampleError
from tests.unit.convert.sources.imported import import_source, load, red

SPLIT = PictureOptions(pages="split")
SIZE = (8, 6)


def pages(*modes: str, kind: str = "TIFF", **settings: Any) -> bytes:
    """Return a picture with a page of each mode; the red value of the page n is 50 n + 50."""
    data = io.BytesIO()
    first, *others = (
        Image.new("RGB", SIZE, (50 * number + 50, 0, 0)).convert(mode) if mode != "I;16" else sixteen_bits()
        for number, mode in enumerate(modes)
    )
    first.save(data, kind, save_all=True, append_images=others, **settings)
    return data.getvalue()


def sixteen_bits() -> Image.Image:
    return Image.fromarray(np.full(SIZE[::-1], 40_000, np.uint16))


def read(parts: Mapping[str, bytes], options: PictureOptions = SPLIT) -> tuple[dict[str, Any], dict[str, int]]:
    row = Row(key="a", parts={name: ValueRef(data) for name, data in parts.items()})
    sample = read_sample(ContentReader([]), row, options)
    return sample.parts, {name: count for name, count in sample.changed.items() if count}


def shrunk_copy() -> bytes:
    """Return a TIFF whose second page is a smaller copy of the first."""
    data = io.BytesIO()
    small = Image.new("L", (4, 3))
    small.encoderinfo = {"tiffinfo": {254: 1}}
    Image.new("L", SIZE).save(data, "TIFF", save_all=True, append_images=[small])
    return data.getvalue()


def test_each_page_keeps_its_pixels_and_mode() -> None:
    modes = ("1", "L", "P", "RGB", "RGBA", "I;16", "CMYK", "F")
    data = pages(*modes, dpi=(300, 300))
    parts, changed = read({"tif": data})
    assert [*parts] == ["0.png", "1.png", "2.png", "3.png", "4.png", "5.png", "6.tif", "7.tif"]
    assert changed == {}
    with Image.open(io.BytesIO(data)) as document:
        for number, page in enumerate(parts.values()):
            document.seek(number)
            with Image.open(io.BytesIO(page)) as picture:
                assert picture.mode == modes[number]
                assert round(picture.info["dpi"][0]) == 300
                np.testing.assert_array_equal(np.asarray(picture), np.asarray(document))


def test_pages_and_their_text_are_a_document(tmp_path: Path) -> None:
    for number, (name, text) in enumerate({"a": "text of a", "b": "text of b"}.items()):
        (tmp_path / f"in/{name}.tif").parent.mkdir(exist_ok=True)
        (tmp_path / f"in/{name}.tif").write_bytes(pages(*["RGB"] * (2 - number)))
        (tmp_path / f"in/{name}.txt").write_text(text)
    import_source(open_folder(tmp_path), tmp_path / "out", pictures=SPLIT)
    samples = load(tmp_path / "out", 2)
    assert {type(sample).__name__ for sample in samples.values()} == {"InterleavedSample"}
    assert {
        key: [item if isinstance(item, str) else red(item) for item in sample.sequence]
        for key, sample in samples.items()
    } == {"a": [50, 100, "text of a"], "b": [50, "text of b"]}


AFTER = {"texts": [None, None, "both"], "images": ["0.png", "1.png", None]}
BETWEEN = {"texts": [None, "one", None], "images": ["0.png", None, "1.png"]}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"json": {"texts": ["one", None], "id": 7}}, {"id": 7, **BETWEEN}),
        ({"json": {"text": "both"}}, {"text": "both", **AFTER}),
        ({"txt": "both"}, AFTER),
        ({"json": {"year": 1999}}, {"year": 1999}),
        ({"json": {"texts": ["one"]}}, {"texts": ["one"]}),
        ({"json": {"text": "both", "images": 3}}, {"text": "both", "images": 3}),
        ({"json": ["both"]}, ["both"]),
    ],
)
def test_texts_are_placed_by_page_or_after_the_last(others: Mapping[str, Any], expected: Any) -> None:
    values = {name: value.encode() if name == "txt" else json.dumps(value).encode() for name, value in others.items()}
    parts, _ = read({"tif": pages("L", "L"), **values})
    assert [*parts] == ["0.png", "1.png", "json"]
    assert json.loads(parts["json"]) == expected


def test_other_media_and_names_stay_apart() -> None:
    parts, _ = read({"left.tif": pages("L", "L"), "right.tif": pages("L"), "txt": b"text"})
    assert [*parts] == ["left.0.png", "left.1.png", "right.0.tif", "txt"]


def test_pages_are_converted_after_they_are_split() -> None:
    parts, changed = read(
        {"tif": pages("L", "RGB", "CMYK"), "txt": b"text"}, PictureOptions(pages="split", format="jpg", max_side=4)
    )
    assert [*parts] == ["0.jpg", "1.jpg", "2.jpg", "json"]
    assert json.loads(parts["json"])["images"] == ["0.jpg", "1.jpg", "2.jpg", None]
    assert {Image.open(io.BytesIO(parts[f"{number}.jpg"])).size for number in range(3)} == {(4, 3)}
    assert changed == {}


def test_a_smaller_copy_is_no_page() -> None:
    data = shrunk_copy()
    assert not has_frames("tif", data)
    assert read({"tif": data})[0] == {"0.tif": data}


def test_a_damaged_page_fails_its_row() -> None:
    data = pages("L", "L", compression="tiff_adobe_deflate")
    with pytest.raises(SampleError, match="page 1 cannot be decoded"):
        read({"tif": cut_second_page(data)})


def cut_second_page(data: bytes) -> bytes:
    """Return a TIFF whose second page has its strip behind the end of the file."""
    with Image.open(io.BytesIO(data)) as picture:
        picture.seek(1)
        offset = picture.tag_v2[273][0]  # type: ignore[attr-defined]
    return data.replace(offset.to_bytes(4, "little"), (1 << 24).to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("tif", pages("L", "L"), True),
        ("tif", pages("L"), False),
        ("gif", pages("RGB", "RGB", kind="GIF"), True),
        ("png", pages("RGB", "RGB", kind="PNG"), True),
        ("png", pages("RGB", kind="PNG"), False),
        ("webp", pages("RGB", "RGB", kind="WEBP"), True),
        ("webp", pages("RGB", kind="WEBP"), False),
        ("tif", b"II*\0 damaged", False),
        ("bin", pages("L", "L"), False),
    ],
)
def test_frames_are_found(name: str, data: bytes, expected: bool) -> None:
    assert has_frames(name, data) is expected


def test_frames_that_training_does_not_read_are_counted_with_the_first(tmp_path: Path) -> None:
    data = {"a.tif": pages("L"), "b.tif": pages("L", "L"), "c.gif": pages("RGB", "RGB", kind="GIF")}
    (tmp_path / "in").mkdir()
    for name, contents in data.items():
        (tmp_path / "in" / name).write_bytes(contents)
    report = run_import(ImportPlan(sources=(open_folder(tmp_path),), output=str(tmp_path / "out")))
    assert (report.changed, report.first_changed) == ({"frames_unread": 2}, {"frames_unread": "b.tif"})


def open_folder(folder: Path) -> Any:
    return open_source(str(folder / "in"), kind=None, options=SourceOptions())
