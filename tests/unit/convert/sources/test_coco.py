"""The pictures of COCO files become samples with their captions or objects, and what does not fit is listed."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loader.convert.annotations.kinds import annotation_kind
from loader.convert.importing import list_rows
from loader.convert.rows.row import FileRef, Row, ValueRef
from loader.convert.sources.coco import CocoSource
from loader.convert.sources.source import Listing
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
        f"{name}, element 2 of images": f"there is no file 'missing.jpg' in {tmp_path}; --root names another folder",
        f"{name}, element 3 of images": "has no file_name, coco_url or flickr_url",
        f"{name}, element 4 of images": "element 0 has the same id",
        f"{name}, element 3 of annotations": "no image has the id 77",
        f"{name}, element 4 of annotations": "object missing required field `caption`",
    }
    report = import_source(source, tmp_path / "out", max_failures=9)
    assert (report.prepared.samples, report.failed) == (2, 5)
    assert [*json.loads((tmp_path / "out/.nv-meta/.info.json").read_text())["shard_counts"].values()] == [2]
    codes = {failure.origin: failure.code for failure in report.failures}
    assert codes[f"{name}, element 2 of images"] == "F102"


def test_pictures_without_captions_fail(tmp_path: Path) -> None:
    source = write_coco(tmp_path, annotations=CAPTIONS[1:2])
    assert faults_of(rows_of(source)) == {
        "captions_train2017.json, element 1 of images": "000000000025.jpg has no caption"
    }


@pytest.mark.parametrize(
    "folder", [".", "images", "images/train2017", "train2017", "annotations", "annotations/images", "my/photos"]
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


def test_pictures_of_equal_names_in_two_other_folders_fail(tmp_path: Path) -> None:
    source = write_coco(tmp_path)
    for name in ("one", "two"):
        shutil.copytree(tmp_path / "train2017", tmp_path / name)
    assert not faults_of(rows_of(source))  # the folder of the split part of the file
    shutil.rmtree(tmp_path / "train2017")
    assert [*faults_of(rows_of(source)).values()] == [
        f"'{name}.jpg' may be one/{name}.jpg or two/{name}.jpg" for name in ("000000000009", "000000000025")
    ]


def test_pictures_that_are_not_found_fail(tmp_path: Path) -> None:
    source = CocoSource(path=str(write(tmp_path / "captions.json", images=IMAGES, annotations=CAPTIONS)))
    assert len(faults_of(rows_of(source))) == 2
    remote = CocoSource(path=source.path, root="s3://bucket/coco")
    assert [ref for row in rows_of(remote) for ref in row.parts.values() if isinstance(ref, FileRef)] == [
        FileRef(b"s3://bucket/coco/000000000009.jpg"),
        FileRef(b"s3://bucket/coco/000000000025.jpg"),
    ]


def test_the_extensions_of_all_pictures_are_proposed(tmp_path: Path) -> None:
    images = [{"id": number, "file_name": f"{number:03d}.{'jpg' if number < 99 else 'PNG'}"} for number in range(100)]
    for image in images:
        write_picture(tmp_path / str(image["file_name"]), 80)
    captions = [{"image_id": number, "caption": "A small giraffe."} for number in range(100)]
    source = CocoSource(path=str(write(tmp_path / "captions.json", images=images, annotations=captions)))
    import_source(source, tmp_path / "out")
    assert [abs(red(sample.image) - 80) < 4 for sample in load(tmp_path / "out", 100).values()] == [True] * 100


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


def import_objects(folder: Path, images: list[Any], annotations: list[Any], **lists: Any) -> tuple[CocoSource, Any]:
    """Import objects; return the source, and the documents by key."""
    path = folder / "annotations" / "instances_train2017.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"images": images, "annotations": annotations, **lists}))
    source = CocoSource(path=str(path))
    import_source(source, folder / "out", max_failures=9)
    count = len(images) - len({f.split(",")[1] for f in faults_of(rows_of(source)) if "of images" in f})
    return source, {key: sample["json"] for key, sample in load(folder / "out", count).items()}


@pytest.mark.parametrize(
    ("fields", "file", "key"),
    [
        ({"coco_url": "http://images.cocodataset.org/train2017/0009.jpg"}, "train2017/0009.jpg", "train2017/0009"),
        ({"coco_url": "http://x.org/train2017/0009.jpg"}, "images/train2017/0009.jpg", "train2017/0009"),
        ({"flickr_url": "http://farm4.example.org/8/a%20b.jpg?size=2"}, "images/a b.jpg", "a b"),
        ({"file_name": "images\\0009.jpg"}, "images/0009.jpg", "images/0009"),
        ({"file_name": "C:\\data\\0009.jpg"}, "images/0009.jpg", "0009"),
        ({"file_name": "/home/someone/0009.jpg"}, "images/0009.jpg", "0009"),
    ],
)
def test_pictures_are_found_by_the_names_that_tools_write(fields: Any, file: str, key: str, tmp_path: Path) -> None:
    write_picture(tmp_path / file, 90)
    _, found = import_objects(tmp_path, [{"id": 9, **fields}], [{"image_id": 9, "bbox": [0, 0, 1, 1]}])
    assert [*found] == [key]
    assert annotation_kind(str(tmp_path / "annotations/instances_train2017.json")) == "coco"


def test_two_subsets_in_one_file_are_found_below_their_folder(tmp_path: Path) -> None:
    """As LVIS, which names pictures of two subsets by their URLs."""
    images = [{"id": n, "coco_url": f"http://x.org/{s}/{n}.jpg"} for n, s in ((1, "train2017"), (2, "val2017"))]
    write_picture(tmp_path / "train2017/1.jpg")
    write_picture(tmp_path / "val2017/2.jpg")
    path = write(tmp_path / "lvis_v1.json", images=images, annotations=[{"image_id": 1, "bbox": [0, 0, 1, 1]}])
    source = CocoSource(path=str(path))
    assert import_source(source, tmp_path / "out").prepared.samples == 2


@pytest.mark.parametrize(("image", "annotation"), [(9, "9"), ("9", 9), (9.0, 9), ("a-1", "a-1")])
def test_ids_are_numbers_or_text(image: Any, annotation: Any, tmp_path: Path) -> None:
    write_picture(tmp_path / "images/a.jpg")
    objects = [{"image_id": annotation, "bbox": [0, 0, 1, 1], "category_id": "3"}]
    categories = [{"id": 3, "name": "dog"}]
    _, found = import_objects(tmp_path, [{"id": image, "file_name": "a.jpg"}], objects, categories=categories)
    assert [one["category"] for one in found["a"]["objects"]] == ["dog"]


def test_pictures_that_share_an_id_are_both_named(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_picture(tmp_path / f"images/{name}.jpg")
    images = [{"id": i, "file_name": f} for i, f in ((1, "a.jpg"), ("1", "b.jpg"), (2, "c.jpg"))]
    source, found = import_objects(tmp_path, images, [{"image_id": 1, "bbox": [0, 0, 1, 1]}])
    assert [*found] == ["c"]
    assert faults_of(rows_of(source)) == {
        "instances_train2017.json, element 0 of images": "element 1 has the same id",
        "instances_train2017.json, element 1 of images": "element 0 has the same id",
    }


@pytest.mark.parametrize(
    ("fields", "area"),
    [
        ({"segmentation": [[0, 0, 4, 0, 4, 2]]}, 4),
        ({"segmentation": [0, 0, 4, 0, 4, 2]}, 4),
        ({"segmentation": {"counts": [1, 2, 9], "size": [3, 4]}}, 2),
        ({"segmentation": {"counts": "129", "size": [3, 4]}}, 2),
        ({"bbox": [1, 1, 2, 1.5]}, 3),
        ({"segmentation": [], "bbox": [1, 1, 2, 1.5]}, 3),
        ({"segmentation": [[0, 0, 4]]}, None),
        ({"area": 7.5, "bbox": [1, 1, 2, 1.5]}, 7.5),
        ({}, None),
    ],
)
def test_a_missing_area_is_that_of_the_annotation(fields: Any, area: float | None, tmp_path: Path) -> None:
    write_picture(tmp_path / "images/a.jpg")
    _, found = import_objects(tmp_path, [{"id": 1, "file_name": "a.jpg"}], [{"image_id": 1, **fields}])
    [written] = found["a"]["objects"]
    assert written.get("area") == area
    assert {name: written[name] for name in fields} == fields, "all other values stay"


def test_a_picture_that_another_file_lists_is_not_left_out(tmp_path: Path) -> None:
    sources = [
        write_coco(tmp_path, f"{name}.json", images=[image], annotations=[{"image_id": image["id"], "caption": "x"}])
        for name, image in zip(("train", "val"), IMAGES, strict=True)
    ]
    both = [replace(source, root=str(tmp_path / "train2017")) for source in sources]
    write_picture(tmp_path / "train2017/x.jpg")
    with list_rows(both, shuffled=False) as listed:
        [unlisted] = listed.account.left_out
    assert (unlisted.reason, unlisted.count, Path(unlisted.example).name) == ("L111", 1, "x.jpg")


def test_pictures_that_are_missing_or_not_listed_are_noted(tmp_path: Path) -> None:
    source = write_coco(tmp_path, images=[*IMAGES, {"id": 3, "file_name": "gone.jpg"}], annotations=[
        *CAPTIONS, {"id": 3, "image_id": 3, "caption": "x"}, {"id": 3, "image_id": 9, "caption": "y"}
    ])  # fmt: skip
    write_picture(tmp_path / "train2017/x.jpg")
    (tmp_path / "train2017/readme.txt").write_text("")
    listing = Listing()
    list(source.rows(listing))
    listing.pictures.leave_others(listing.account)
    folder = (tmp_path / "train2017").resolve()
    [unlisted] = listing.account.left_out
    assert (unlisted.reason, unlisted.count, unlisted.example) == ("L111", 1, f"{folder}/x.jpg")
    assert listing.notes == [
        f"paths such as '000000000009.jpg' lead to no file: train2017/000000000009.jpg in {tmp_path} has this name",
        "annotations with the id of an earlier one: 2, such as 3 of element 2; all are written",
    ]
