"""Annotations and masks follow their picture, or the sample fails."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from demo_photographs import FOLDER as PHOTOGRAPHS
from PIL import Image, ImageFilter

from loader.convert.annotations.coordinates import decode_mask, encode_mask
from loader.convert.importing import contents
from loader.convert.importing.pictures import PictureOptions
from loader.convert.importing.plan import ImportPlan, list_rows
from loader.convert.importing.report import ImportReport
from loader.convert.importing.run import run_import
from loader.convert.importing.sample_contents import StrayCoordinatesError
from loader.convert.importing.write_shard import write_trial
from loader.convert.rows.shard_layout import ShardLayout
from loader.convert.sources.coco import CocoSource
from loader.convert.sources.detect import open_source
from loader.convert.sources.files import FilesSource
from loader.convert.sources.source import ImportSource, Listing
from loader.convert.tables.source_options import SourceOptions
from loader.errors import SampleError
from tests.unit.convert.importing.test_run import import_folder, samples_of

ORIENTATION = 0x0112
SIZE = (120, 80)


def picture(size: tuple[int, int] = SIZE, *, kind: str = "JPEG", orientation: int | None = None) -> bytes:
    data, exif = io.BytesIO(), Image.Exif()
    if orientation is not None:
        exif[ORIENTATION] = orientation
    Image.effect_noise(size, 50).convert("RGB").save(data, kind, exif=exif)
    return data.getvalue()


def gray(values: Any) -> bytes:
    data = io.BytesIO()
    Image.fromarray(values).save(data, "PNG")
    return data.getvalue()


def run(source: ImportSource, output: Path, *, max_failures: float = 0, **options: Any) -> ImportReport:
    plan = ImportPlan(
        sources=(source,), output=str(output), pictures=PictureOptions(**options), max_failures=max_failures
    )
    return run_import(plan)


def coco(folder: Path, data: bytes, **fields: Any) -> CocoSource:
    folder.mkdir(exist_ok=True)
    (folder / "a.jpg").write_bytes(data)
    annotation = {
        "id": 1, "image_id": 7, "bbox": [10, 20, 30, 40], "area": 1200, "keypoints": [10, 20, 2],
        "segmentation": [[10, 20, 40, 20, 40, 60]], **fields,
    }  # fmt: skip
    image = {"id": 7, "file_name": "a.jpg", "width": SIZE[0], "height": SIZE[1]}
    path = folder / "instances.json"
    path.write_text(json.dumps({"images": [image], "annotations": [annotation]}))
    return CocoSource(path=str(path))


def document(output: Path) -> Any:
    [sample] = samples_of(output).values()
    return json.loads(sample["json"])


def test_annotations_of_coco_follow_a_resize(tmp_path: Path) -> None:
    report = run(coco(tmp_path / "in", picture()), tmp_path / "out", max_side=60)
    found = document(tmp_path / "out")
    assert (found["width"], found["height"]) == (60, 40)
    assert found["objects"][0] == {
        "id": 1,
        "bbox": [5, 10, 15, 20],
        "area": 300,
        "keypoints": [4.75, 9.75, 2],
        "segmentation": [[5, 10, 20, 10, 20, 30]],
    }
    assert report.changed == {"geometry_moved": 1}


def test_annotations_of_coco_follow_a_turn(tmp_path: Path) -> None:
    report = run(coco(tmp_path / "in", picture(orientation=6)), tmp_path / "out", orient=True)
    found = document(tmp_path / "out")
    assert (found["width"], found["height"]) == (80, 120)
    assert found["objects"][0]["bbox"] == [20, 10, 40, 30]
    assert found["objects"][0]["keypoints"] == [59, 10, 2]
    assert report.changed == {"geometry_moved": 1}


def test_a_picture_that_stays_keeps_its_document(tmp_path: Path) -> None:
    source = coco(tmp_path / "in", picture(), obb=[1, 2, 3, 4, 0.5])
    report = run(source, tmp_path / "out", max_side=120, orient=True, verify=True)
    assert document(tmp_path / "out")["objects"][0]["obb"] == [1, 2, 3, 4, 0.5]
    assert report.changed == {}


def test_other_coordinates_next_to_those_of_coco_are_refused(tmp_path: Path) -> None:
    source = coco(tmp_path / "in", picture(), obb=[1, 2, 3, 4, 0.5])
    with list_rows([source], shuffled=False) as listed:
        with (
            pytest.raises(StrayCoordinatesError, match=r"json: objects\.obb has coordinates") as caught,
            write_trial(listed, PictureOptions(max_side=60)),
        ):
            pass
        assert "--geometry ignore" in str(caught.value)
    report = run(source, tmp_path / "out", max_side=60, geometry="ignore")
    found = document(tmp_path / "out")["objects"][0]
    assert (found["obb"], found["bbox"]) == ([1, 2, 3, 4, 0.5], [5, 10, 15, 20])
    assert report.changed == {"geometry_moved": 1, "geometry_ignored": 1}


LAYOUTS = {
    "voc": {"a.xml": "<annotation><object><bndbox><xmin>4</xmin></bndbox></object></annotation>"},
    "labelme": {"a.json": '{"shapes": [{"points": [[3, 4], [50, 60]]}]}'},
    "boxes": {"a.boxes.npy": "?"},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_coordinates_of_other_layouts_fail_their_row(layout: str, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.jpg").write_bytes(picture(orientation=8))
    (source / "b.jpg").write_bytes(picture((30, 20)))  # is neither shrunk nor turned
    for name, text in LAYOUTS[layout].items():
        (source / name).write_text(text)
        (source / name.replace("a.", "b.", 1)).write_text(text)
    requested: tuple[dict[str, Any], ...] = ({"max_side": 60}, {"orient": True})
    for number, options in enumerate(requested):
        output = tmp_path / f"out{number}"
        report = run(FilesSource(path=str(source)), output, max_failures=1, **options)
        [failure] = report.failures
        assert failure.origin.startswith("a.")
        assert "has coordinates" in failure.reason
        ignored = run(FilesSource(path=str(source)), tmp_path / f"ignored{number}", **options, geometry="ignore")
        assert (ignored.failed, ignored.changed) == (0, {"geometry_ignored": 1})


@pytest.mark.parametrize(
    "row",
    [{"bbox": "[10, 20, 30, 40]", "label": "dog"}, {"xmin": 3, "ymin": 4, "xmax": 30, "ymax": 40}],
)
def test_columns_of_tables_are_looked_at(row: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(picture())
    header = ",".join(["image", "caption", *row])
    values = ",".join(f'"{value}"' for value in ("a.jpg", "a dog", *row.values()))
    (tmp_path / "t.csv").write_text(f"{header}\n{values}\n")
    source = open_source(str(tmp_path / "t.csv"), kind=None, options=SourceOptions())
    with list_rows([source], shuffled=False) as listed:
        with (
            pytest.raises(StrayCoordinatesError, match="has coordinates"),
            write_trial(listed, PictureOptions(max_side=60)),
        ):
            pass
        with write_trial(listed, PictureOptions(max_side=120)):
            pass


def test_objects_of_hugging_face_tables_are_looked_at(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    objects = [{"bbox": [[10.0, 20.0, 30.0, 40.0]], "area": [1200], "category": [3]}]
    table = pa.table({"image": [{"bytes": picture(), "path": "a.jpg"}], "objects": objects})
    pq.write_table(table, tmp_path / "t.parquet")
    source = open_source(str(tmp_path / "t.parquet"), kind=None, options=SourceOptions())
    with (
        list_rows([source], shuffled=False) as listed,
        pytest.raises(StrayCoordinatesError, match=r"objects.*bbox has coordinates"),
        write_trial(listed, PictureOptions(max_side=60)),
    ):
        pass


def test_sizes_in_documents_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.jpg").write_bytes(picture())
    (source / "a.json").write_text('{"width": 120, "height": 80, "url": "https://example.org"}')
    report = import_folder(source, tmp_path / "out", pictures=PictureOptions(max_side=60))
    assert report.changed == {"sizes_kept": 1}
    assert document(tmp_path / "out")["width"] == 120


@pytest.mark.parametrize("name", ["mask.png", "seg.png", "png"])
@pytest.mark.parametrize("orientation", [1, 5, 8])
def test_masks_follow_their_picture(name: str, orientation: int, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    classes = (np.arange(SIZE[0] * SIZE[1]).reshape(SIZE[::-1]) // 700 * 19).astype(np.uint8)
    (source / "a.jpg").write_bytes(picture(orientation=orientation))
    (source / f"a.{name}").write_bytes(gray(classes))
    import_folder(source, tmp_path / "out", pictures=PictureOptions(max_side=60, orient=True, format="jpg"))
    [sample] = samples_of(tmp_path / "out").values()
    sizes = [Image.open(io.BytesIO(sample[part])).size for part in ("jpg", name)]
    assert sizes == [(40, 60) if orientation > 1 else (60, 40)] * 2
    found = np.asarray(Image.open(io.BytesIO(sample[name])))
    assert set(np.unique(found)) <= set(np.unique(classes))
    if orientation == 8:
        assert found[0, 0] == classes[0, -1], "the upper left corner was the upper right one"


def test_a_mask_of_the_upright_picture_is_not_turned(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.jpg").write_bytes(picture(orientation=6))
    mask = gray(np.eye(SIZE[0], SIZE[1], dtype=np.uint8))
    (source / "a.mask.png").write_bytes(mask)
    import_folder(source, tmp_path / "out", pictures=PictureOptions(orient=True))
    [sample] = samples_of(tmp_path / "out").values()
    assert sample["mask.png"] == mask


def test_two_photographs_are_no_masks(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for name in ("left", "right"):
        (source / f"a.{name}.png").write_bytes(picture(kind="PNG"))
    (source / "a.txt").write_text("x")
    import_folder(source, tmp_path / "out", pictures=PictureOptions(format="jpg", max_side=60))
    [sample] = samples_of(tmp_path / "out").values()
    assert sorted(sample) == ["left.jpg", "right.jpg", "txt"]


def test_large_pictures_are_converted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_LARGE_BYTES", 100)
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.png").write_bytes(picture(kind="PNG"))
    (source / "b.png").write_bytes(small := picture((30, 20), kind="PNG"))
    (source / "c.png").write_bytes(small[:-40])
    report = import_folder(source, tmp_path / "out", pictures=PictureOptions(max_side=60), max_failures=1)
    samples = samples_of(tmp_path / "out")
    assert Image.open(io.BytesIO(samples["a"]["png"])).size == (60, 40)
    assert (samples["b"]["png"], report.failed) == (small, 1)


def test_counts_are_those_of_all_shards_after_a_resume(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for number in range(4):
        data = io.BytesIO()
        Image.new("RGBA", (8, 8), (0, 0, 0, 9)).save(data, "PNG")
        (source / f"{number}.png").write_bytes(data.getvalue() if number < 3 else b"?")
    settings: dict[str, Any] = {"layout": ShardLayout(samples_per_shard=1)}
    jpg = PictureOptions(format="jpg")
    with pytest.raises(SampleError, match="samples failed"):
        import_folder(source, tmp_path / "out", pictures=jpg, max_failures=0, **settings)
    report = import_folder(source, tmp_path / "out", pictures=jpg, max_failures=1, **settings)
    assert (report.resumed, report.changed) == (4, {"alpha_composed": 3})


def test_another_background_writes_shards_again(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    data = io.BytesIO()
    Image.new("RGBA", (8, 8)).save(data, "PNG")
    (source / "0.png").write_bytes(data.getvalue())
    (source / "1.png").write_bytes(b"?")
    settings: dict[str, Any] = {"layout": ShardLayout(samples_per_shard=1)}
    with pytest.raises(SampleError):
        import_folder(source, tmp_path / "out", pictures=PictureOptions(format="jpg"), max_failures=0, **settings)
    gray_ground = PictureOptions(format="jpg", background=(128, 128, 128))
    report = import_folder(source, tmp_path / "out", pictures=gray_ground, max_failures=1, **settings)
    assert report.resumed == 0
    [sample] = samples_of(tmp_path / "out").values()
    assert abs(int(np.asarray(Image.open(io.BytesIO(sample["jpg"])))[0, 0].max()) - 128) <= 2


def test_the_layout_of_a_document_is_kept_in_the_list_of_rows(tmp_path: Path) -> None:
    [row] = coco(tmp_path / "in", picture()).rows(Listing())
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(row))[1]["json"][2] == "coco"


def test_the_mask_of_a_photograph_still_covers_its_bright_parts(tmp_path: Path) -> None:
    """Two ways to the same mask: shrink the mask, and shrink the photograph and then look for bright pixels."""
    photograph = Image.open(PHOTOGRAPHS / "astronaut.png").convert("RGB").crop((0, 0, 512, 300))
    bright = np.asarray(photograph.convert("L").filter(ImageFilter.GaussianBlur(6))) > 110
    data = io.BytesIO()
    photograph.save(data, "PNG")
    folder = tmp_path / "in"
    source = coco(folder, data.getvalue())
    (folder / "a.jpg").rename(folder / "a.png")
    mask = {"counts": encode_mask(bright, as_text=True), "size": [300, 512]}
    image = {"id": 7, "file_name": "a.png", "width": 512, "height": 300}
    annotation = {"id": 1, "image_id": 7, "segmentation": mask, "iscrowd": 1}
    Path(source.path).write_text(json.dumps({"images": [image], "annotations": [annotation]}))
    run(source, tmp_path / "out", max_side=128)
    [sample] = samples_of(tmp_path / "out").values()
    shrunk = Image.open(io.BytesIO(sample["png"])).convert("L").filter(ImageFilter.GaussianBlur(1.5))
    moved = json.loads(sample["json"])["objects"][0]
    found = decode_mask(moved["segmentation"]["counts"], shrunk.size)
    assert shrunk.size == (128, 75)
    assert (found == (np.asarray(shrunk) > 110)).mean() > 0.97
    assert moved["area"] == pytest.approx(found.sum(), rel=0.02)
