"""The pictures of COCO files become samples with their captions or objects, and what does not fit is listed."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from loader.convert.rows.row import FileRef, Row, ValueRef
from loader.convert.sources.coco import CocoSource
from loader.convert.sources.source import SampleProposal
from loader.errors import ConfigError, FormatError
from tests.unit.convert.sources.imported import faults_of, import_source, load, red, rows_of, write_picture

IMAGES = [
    {"id": 9, "file_name": "000000000009.jpg", "width": 4, "height": 3, "license": 1},
    {"id": 25, "file_name": "000000000025.jpg", "width": 4, "height": 3},
]
CAPTIONS = [
    {"id": 1, "image_id": 25, "caption": " A giraffe.\n"},
    {"id": 2, "image_id": 9, "caption": "Ein Löffel."},
    {"id": 3, "image_id": 25, "caption": "Two giraffes."},
]
OBJECTS = [
    {"id": 7, "image_id": 9, "category_id": 18, "bbox": [0.5, 1, 2, 2], "area": 4, "iscrowd": 0,
     "segmentation": [[0.5, 1, 2.5, 1, 2.5, 3]]},
    {"id": 8, "image_id": 9, "category_id": 99, "bbox": [0, 0, 1, 1], "area": 1, "iscrowd": 1,
     "segmentation": {"counts": [1, 2], "size": [3, 4]}, "keypoints": [1, 2, 3]},
]  # fmt: skip
CATEGORIES = [{"id": 18, "name": "dog", "supercategory": "animal"}]


def write(path: Path, **lists: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"info": {"year": 2017}, "licenses": [], **lists}))
    return path


def write_coco(folder: Path, name: str = "captions_train2017.json", **lists: Any) -> CocoSource:
    for image in IMAGES:
        write_picture(folder / "train2017" / str(image["file_name"]), int(str(image["id"])))
    lists = {"images": IMAGES, "annotations": CAPTIONS, **lists}
    return CocoSource(path=str(write(folder / "annotations" / name, **lists)))


def test_captions_are_loaded(tmp_path: Path) -> None:
    source = write_coco(tmp_path)
    report = import_source(pickle.loads(pickle.dumps(source)), tmp_path / "out")
    assert (report.prepared.samples, report.failed) == (2, 0)
    samples = load(tmp_path / "out", 2)
    assert {key: (type(sample).__name__, sample.caption) for key, sample in samples.items()} == {
        "000000000009": ("CaptioningSample", "Ein Löffel."),
        "000000000025": ("CaptioningSample", "A giraffe."),
    }
    assert [abs(red(sample.image) - int(key)) < 4 for key, sample in samples.items()] == [True, True]
    row = rows_of(source)[1]
    assert row.split == "train"
    assert document_of(row) == {
        "image_id": 25,
        "file_name": "000000000025.jpg",
        "width": 4,
        "height": 3,
        "captions": [" A giraffe.\n", "Two giraffes."],
    }


def document_of(row: Row) -> Any:
    part = row.parts["json"]
    assert isinstance(part, ValueRef)
    return json.loads(part.data)


def test_objects_are_loaded_also_those_of_pictures_without_any(tmp_path: Path) -> None:
    source = write_coco(tmp_path, "instances_train2017.json", annotations=OBJECTS, categories=CATEGORIES)
    assert source.proposal() == SampleProposal(sample_type="CrudeSample")
    import_source(source, tmp_path / "out")
    samples = load(tmp_path / "out", 2)
    assert [abs(red(sample["jpg"]) - int(key)) < 4 for key, sample in samples.items()] == [True, True]
    first, second = samples["000000000009"]["json"], samples["000000000025"]["json"]
    assert second == {"image_id": 25, "file_name": "000000000025.jpg", "width": 4, "height": 3, "objects": []}
    assert first["objects"][0] == {
        "id": 7,
        "category_id": 18,
        "bbox": [0.5, 1, 2, 2],
        "area": 4,
        "iscrowd": 0,
        "segmentation": [[0.5, 1, 2.5, 1, 2.5, 3]],
        "category": "dog",
    }
    assert first["objects"][1]["segmentation"] == {"counts": [1, 2], "size": [3, 4]}
    assert "category" not in first["objects"][1]
    assert (first["image_id"], first["license"]) == (9, 1)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("instances_val2017.json", "val"),
        ("valid/_annotations.coco.json", "val"),
        ("trained.json", ""),
        ("x/a.json", ""),
    ],
)
def test_the_split_is_that_of_the_name(name: str, split: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, images=[*IMAGES, {}], annotations=OBJECTS)
    for image in IMAGES:
        write_picture(path.parent / str(image["file_name"]))
    rows = rows_of(CocoSource(path=str(path)))
    assert len(rows) == 3
    assert {row.split for row in rows} == {split}


def test_what_does_not_fit_is_listed(tmp_path: Path) -> None:
    images = [*IMAGES, {"id": 30, "file_name": "missing.jpg"}, {"id": 31}, {"id": 9, "file_name": "000000000009.jpg"}]
    annotations = [
        *CAPTIONS,
        {"image_id": 77, "caption": "of nothing"},
        {"image_id": 25},
        {"image_id": 30, "caption": "x"},
    ]
    source = write_coco(tmp_path, images=images, annotations=annotations)
    rows = rows_of(source)
    name = "captions_train2017.json"
    assert faults_of(rows) == {
        f"{name}, element 3 of images": "has no file_name, coco_url or flickr_url",
        f"{name}, element 4 of images": "element 0 has the same id",
        f"{name}, element 3 of annotations": "no image has the id 77",
        f"{name}, element 4 of annotations": "object missing required field `caption`",
    }
    report = import_source(source, tmp_path / "out", max_failures=9)
    assert (report.prepared.samples, report.failed) == (2, 5)
    assert [*json.loads((tmp_path / "out/.nv-meta/.info.json").read_text())["shard_counts"].values()] == [2]
    reasons = {failure.origin: failure.reason for failure in report.failures}
    assert "No such file" in reasons[f"{name}, element 2 of images"]


def test_pictures_without_captions_fail(tmp_path: Path) -> None:
    source = write_coco(tmp_path, annotations=CAPTIONS[1:2])
    assert faults_of(rows_of(source)) == {
        "captions_train2017.json, element 1 of images": "000000000025.jpg has no caption"
    }


@pytest.mark.parametrize(
    "folder", [".", "images", "images/train2017", "train2017", "annotations", "annotations/images"]
)
def test_pictures_near_the_file_are_found(folder: str, tmp_path: Path) -> None:
    source = write_coco(tmp_path)
    pictures = [*(tmp_path / "train2017").iterdir()]
    (tmp_path / folder).mkdir(exist_ok=True, parents=True)
    for picture in pictures[1:]:  # the first may be missing
        picture.rename(tmp_path / folder / picture.name)
    for picture in (tmp_path / "train2017").iterdir():
        if folder != "train2017":
            picture.unlink()
    found = [
        ref.path
        for row in rows_of(source)
        for part, ref in row.parts.items()
        if part == "jpg" and isinstance(ref, FileRef)
    ]
    assert {Path(path.decode()).parent for path in found} == {(tmp_path / folder).resolve()}


def test_pictures_that_are_not_found_stop_the_import(tmp_path: Path) -> None:
    source = CocoSource(path=str(write(tmp_path / "captions.json", images=IMAGES, annotations=CAPTIONS)))
    with pytest.raises(ConfigError, match=r"none of the first pictures exists, such as '000000000009.jpg'"):
        rows_of(source)
    remote = CocoSource(path=source.path, root="s3://bucket/coco")
    assert [ref for row in rows_of(remote) for ref in row.parts.values() if isinstance(ref, FileRef)] == [
        FileRef(b"s3://bucket/coco/000000000009.jpg"),
        FileRef(b"s3://bucket/coco/000000000025.jpg"),
    ]


def test_the_extensions_of_all_pictures_are_proposed(tmp_path: Path) -> None:
    images = [*IMAGES, {"id": 1, "file_name": "x/y.PNG"}]
    assert write_coco(tmp_path, images=images).proposal() == SampleProposal(
        sample_type="CaptioningSample", field_map={"image": "jpg,png", "caption": "txt"}
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"images": [\n{"id": 1,}]}', "this is not valid JSON: .*; line 2, column 10"),
        ('{"images": [\n{"id": 1}', "this is not valid JSON: .*truncated; line 2, column 10"),
        ("", "the file is empty"),
        ('{"images": []}', "expected a list 'annotations', found images"),
        ('{"images": {}, "annotations": []}', "expected a list 'images'"),
        ("[1]", "expected an object"),
    ],
)
def test_other_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises((ConfigError, FormatError), match=message) as caught:
        rows_of(CocoSource(path=str(path)))
    assert re.match(re.escape(str(path)), caught.value.at or "")


def test_nan_is_read_as_null(tmp_path: Path) -> None:
    source = write_coco(tmp_path, "a_train2017.json", annotations=[{**OBJECTS[0], "area": float("nan"), "note": "NaN"}])
    [found] = document_of(rows_of(source)[0])["objects"]
    assert (found["area"], found["note"]) == (None, "NaN")
