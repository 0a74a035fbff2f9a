"""Exports of tools that label pictures, as their documentation describes the files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.layouts.cards_pictures import coco
from tests.layouts.layout import card, write

ROBOFLOW = {
    "train": ["a_jpg.rf.0c1", "b_jpg.rf.0c2", "c_jpg.rf.0c3"],
    "valid": ["d_jpg.rf.0c4"],
    "test": ["e_jpg.rf.0c5"],
}


@card(
    samples={
        f"{folder}/{name.replace('.', '_')}": f"{split}: jpg json"
        for folder, split in (("train", "train"), ("valid", "val"), ("test", "test"))
        for name in ROBOFLOW[folder]
    },
    holds={"valid/d_jpg_rf_0c4": '"cat"'},
)
def coco_of_roboflow(folder: Path) -> None:
    write(folder, {"README.dataset.txt": "# cats", "README.roboflow.txt": "This dataset was exported via roboflow.com"})
    for split, names in ROBOFLOW.items():
        write(folder, [f"{split}/{name}.jpg" for name in names])
        write(folder, {f"{split}/_annotations.coco.json": coco([f"{name}.jpg" for name in names], "instances")})


@card(
    samples={
        f"{folder}/{name.replace('.', '_')}": f"{split}: jpg json"
        for folder, split in (("train", "train"), ("valid", "val"), ("test", "test"))
        for name in ROBOFLOW[folder]
    },
    holds={"valid/d_jpg_rf_0c4": '"objects":[{"category":"cat","bbox":[1,2,3,2]},{"category":"dog","bbox":[2,1,3,4]}]'},
    sample_type="CrudeSample",
)
def tensorflow_csv_of_roboflow(folder: Path) -> None:
    header = "filename,width,height,class,xmin,ymin,xmax,ymax"
    for split, names in ROBOFLOW.items():
        rows = [f"{name}.jpg,8,6,{box}" for name in names for box in ("cat,1,2,4,4", "dog,2,1,5,5")]
        write(folder, [f"{split}/{name}.jpg" for name in names])
        write(folder, {f"{split}/_annotations.csv": "\n".join([header, *rows])})


@card(
    samples={f"train/{n}{n:08x}": "jpg" if n > 6 else "jpg json" for n in range(8)},
    holds={"train/300000003": '{"width":1024,"height":1024,"objects":[{"bbox":[834,222,56,36],"source":"usask_1"},'},
)
def global_wheat(folder: Path) -> None:
    # Pictures without wheat have no row.
    write(folder, [f"train/{n}{n:08x}.jpg" for n in range(8)])
    rows = [f'{n}{n:08x},1024,1024,"[{834 + k}.0, 222.0, 56.0, 36.0]",usask_1' for n in range(7) for k in range(3)]
    write(folder, {"train.csv": "\n".join(["image_id,width,height,bbox,source", *rows])})


@card(
    samples={f"img{n}": "jpg json" for n in range(5)},
    holds={"img3": '{"category":"cat","bbox":[1,2,3,4],"file_size":631'},
    sample_type="CrudeSample",
)
def via(folder: Path) -> None:
    header = "filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes"
    region = '"{""name"":""rect"",""x"":1,""y"":2,""width"":3,""height"":4}","{""type"":""cat""}"'
    write(folder, [f"img{n}.jpg" for n in range(5)])
    rows = [f'img{n}.jpg,631,"{{}}",2,{k},{region}' for n in range(5) for k in range(2)]
    write(folder, {"via_region_data.csv": "\n".join([header, *rows])})


@card(
    samples={f"train/{n:016x}": "jpg json" for n in range(5)},
    holds={"train/0000000000000003": '"width":8,"height":6,"objects":[{"category":"/m/0","bbox":[2,0.6,2,4.8]'},
)
def open_images_boxes(folder: Path) -> None:
    header = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated"
    rows = [f"{n:016x},xclick,/m/{k},1,0.250000,0.500000,0.1,0.9,0,0" for n in range(5) for k in range(2)]
    write(folder, [f"train/{n:016x}.jpg" for n in range(5)])
    write(folder, {"oidv6-train-annotations-bbox.csv": "\n".join([header, *rows])})


@card(
    samples={f"street_{n}{again}": "jpg json txt" for n in range(5) for again in ("", "-2")}, note="5 keys|column:image"
)
def expressions_that_refer_to_boxes(folder: Path) -> None:
    write(folder, [f"street_{n}.jpg" for n in range(5)])
    rows = [
        f"street_{n}.jpg,the car on the {side},{k},2,3,4" for n in range(5) for k, side in enumerate(("left", "right"))
    ]
    write(folder, {"expressions.csv": "\n".join(["image,sentence,x,y,w,h", *rows])})


BOXES = "0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.2 0.2\n"


@card(
    samples={
        **{f"coco8/train/{n:012d}": "train: jpg json" for n in (9, 25, 30, 34)},
        **{f"coco8/val/{n:012d}": "val: jpg json" for n in (36, 42, 49, 61)},
    },
    sample_type="CrudeSample",
    texts={
        "coco8/val/000000000036.json": '{"width":8,"height":6,"objects":[{"category_id":0,"category":"person",'
        '"bbox":[3.2,2.4,1.6,1.2]},{"category_id":1,"category":"bicycle","bbox":[0,0,1.6,1.2]}]}'
    },
)
def yolo_of_ultralytics(folder: Path) -> None:
    for split, numbers in (("train", (9, 25, 30, 34)), ("val", (36, 42, 49, 61))):
        write(folder, [f"coco8/images/{split}/{n:012d}.jpg" for n in numbers])
        write(folder, {f"coco8/labels/{split}/{n:012d}.txt": BOXES for n in numbers})
    yaml = "path: coco8\ntrain: images/train\nval: images/val\ntest:\nnames:\n  0: person\n  1: bicycle\n"
    write(folder, {"coco8/coco8.yaml": yaml, "coco8/README.md": "# COCO8", "coco8/LICENSE": "AGPL-3.0"})


@card(
    samples={
        **{f"train/{n:012d}": "train: jpg json" for n in (110, 113, 127, 142)},
        **{f"val/{n:012d}": "val: jpg json" for n in (143, 144, 151, 152)},
    },
    sample_type="CrudeSample",
    holds={"val/000000000143": '"category":"person","bbox":[3.2,2.4,1.6,1.2],"keypoints":[0.8,0.6,2,1.6,1.2,1]'},
)
def yolo_pose_of_ultralytics(folder: Path) -> None:
    for split, numbers in (("train", (110, 113, 127, 142)), ("val", (143, 144, 151, 152))):
        write(folder, [f"images/{split}/{n:012d}.jpg" for n in numbers])
        line = "0 0.5 0.5 0.2 0.2 0.1 0.1 2 0.2 0.2 1\n"
        write(folder, {f"labels/{split}/{n:012d}.txt": line for n in numbers})
    yaml = "path: coco8-pose\ntrain: images/train\nval: images/val\nkpt_shape: [2, 3]\nnames:\n  0: person\n"
    write(folder, {"coco8-pose.yaml": yaml})


@card(
    samples={f"{split}/P{n:04d}": f"{split}: png json" for n in range(8) for split in ["val" if n > 5 else "train"]},
    holds={"val/P0007": ('"gsd":"0.14"', '{"category":"ship","bbox":[1,1,3,2],"segmentation":[[1,1,4,1,4,3,1,3]]')},
    sample_type="CrudeSample",
)
def dota(folder: Path) -> None:
    for n in range(8):
        name = f"{'val' if n > 5 else 'train'}/images/P{n:04d}.png"
        lines = "imagesource:GoogleEarth\ngsd:0.14\n1.0 1.0 4.0 1.0 4.0 3.0 1.0 3.0 ship 0\n"
        write(folder, [name])
        write(folder, {name.replace("images", "labelTxt").replace(".png", ".txt"): lines})


@card(
    samples={
        **{f"train/{name}_jpg_rf_1": "train: jpg json" for name in "abcd"},
        "valid/e_jpg_rf_1": "val: jpg json",
        "test/f_jpg_rf_1": "test: jpg json",
    },
    holds={"valid/e_jpg_rf_1": ('"cat"', '"dog"')},
    sample_type="CrudeSample",
)
def yolo_of_roboflow(folder: Path) -> None:
    for split, names in (("train", "abcd"), ("valid", "e"), ("test", "f")):
        write(folder, [f"{split}/images/{name}_jpg.rf.1.jpg" for name in names])
        write(folder, {f"{split}/labels/{name}_jpg.rf.1.txt": BOXES for name in names})
    yaml = "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 2\nnames: ['cat', 'dog']\n"
    write(
        folder, {"data.yaml": yaml, "README.dataset.txt": "# cats", "README.roboflow.txt": "exported via roboflow.com"}
    )


@card(
    samples={f"obj_train_data/frame_{n:06d}": "jpg json" for n in range(5)},
    holds={"obj_train_data/frame_000004": '"dog"'},
)
def yolo_of_darknet(folder: Path) -> None:
    names = [f"obj_train_data/frame_{n:06d}" for n in range(5)]
    write(folder, [f"{name}.jpg" for name in names])
    write(folder, {f"{name}.txt": BOXES for name in names})
    data = "classes = 2\ntrain = data/train.txt\nnames = data/obj.names\nbackup = backup/\n"
    write(folder, {"obj.data": data, "obj.names": "cat\ndog\n"})
    write(folder, {"train.txt": "".join(f"data/{name}.jpg\n" for name in names)})


@card(
    samples={f"street_{n}": "jpg json" for n in range(5)},
    holds={"street_3": '{"category":"car","bbox":[1,1,1,1],"segmentation":[['},
)
def labelme(folder: Path) -> None:
    for n in range(5):
        shapes: list[dict[str, Any]] = [
            {"label": "car", "points": [[1, 1], [2, 2], [1, 2]], "group_id": None, "shape_type": "polygon", "flags": {}}
        ]
        document: dict[str, Any] = {
            "version": "5.0.1",
            "flags": {},
            "shapes": shapes,
            "imagePath": f"street_{n}.jpg",
            "imageData": None,
        }
        write(folder, [f"street_{n}.jpg"])
        write(folder, {f"street_{n}.json": json.dumps({**document, "imageHeight": 6, "imageWidth": 8})})


@card(samples={f"ds{n}/street_{n}": "jpg jpg.json" for n in range(6)})
def supervisely_without_a_reader(folder: Path) -> None:
    # A file that is named after a whole file belongs to it, also in another folder.
    document = {"description": "", "tags": [], "size": {"height": 6, "width": 8}, "objects": []}
    for n in range(6):
        write(folder, [f"ds{n}/img/street_{n}.jpg"])
        write(folder, {f"ds{n}/ann/street_{n}.jpg.json": json.dumps(document)})
    write(folder, {"meta.json": json.dumps({"classes": [], "tags": [], "projectType": "images"})})


@card(
    samples={f"images/{n:08x}-cat_{n} | {n}": "jpg json" for n in range(1, 7)},
    holds={"images/00000003-cat_3 | 3": ('{"category":"cat","bbox":[0.84,1.2,2.4,2.4]', "Dx_a", '"completed_by":1')},
    sample_type="CrudeSample",
)
def label_studio(folder: Path) -> None:
    names = [f"{n:08x}-cat_{n}.jpg" for n in range(1, 7)]
    write(folder, [f"images/{name}" for name in names])
    value = {"x": 10.5, "y": 20, "width": 30, "height": 40, "rotation": 0, "rectanglelabels": ["cat"]}
    result = [{"id": "Dx_a", "type": "rectanglelabels", "from_name": "label", "to_name": "image", "value": value}]
    tasks = [
        {
            "id": number,
            "annotations": [
                {"id": 100 + number, "completed_by": 1, "result": result, "was_cancelled": False, "task": number}
            ],
            "file_upload": name,
            "drafts": [],
            "predictions": [],
            "data": {"image": f"/data/upload/1/{name}"},
            "meta": {},
            "created_at": "2024-03-09T21:52:49.513742Z",
            "project": 1,
        }
        for number, name in enumerate(names, start=1)
    ]
    write(folder, {"project-1-at-2024-03-09-21-53-8a1c.json": json.dumps(tasks)})


@card(
    samples={f"images/{n:08x}-cat_{n}": "jpg json project-1-at-2024-03-09-21-53-8a1c.json txt" for n in range(1, 7)},
    holds={"images/00000003-cat_3": ('{"category":"cat","bbox":[0.84,1.2,2.4,2.4]', "a cat 3")},
    note="annotations of Label Studio in .* are read: objects are in project-1-at-2024-03-09-21-53-8a1c.json",
)
def label_studio_next_to_captions(folder: Path) -> None:
    label_studio(folder)
    rows = "".join(f"images/{n:08x}-cat_{n}.jpg,a cat {n},anna {n % 3}\n" for n in range(1, 7))
    write(folder, {"captions.csv": f"file,caption,photographer\n{rows}"})


@card(
    samples={f"images/frame_{n:02d} | {n}": "jpg json" for n in range(6)},
    holds={"images/frame_04 | 4": '{"category":"car","bbox":[1.5,1,1.5,3],"shape":"box"'},
    sample_type="CrudeSample",
)
def cvat_for_images(folder: Path) -> None:
    write(folder, [f"images/frame_{n:02d}.jpg" for n in range(6)])
    box = '<box label="car" source="manual" occluded="0" xtl="1.5" ytl="1.0" xbr="3.0" ybr="4.0" z_order="0"></box>'
    images = "".join(f'<image id="{n}" name="frame_{n:02d}.jpg" width="8" height="6">{box}</image>' for n in range(6))
    meta = "<meta><task><id>7</id><name>cars</name><size>6</size><mode>annotation</mode></task></meta>"
    start = '<?xml version="1.0" encoding="utf-8"?>'
    write(folder, {"annotations.xml": f"{start}<annotations><version>1.1</version>{meta}{images}</annotations>"})


@card(samples={f"data/{n:06d}": "jpg json" for n in range(1, 6)}, holds={"data/000004": '"label":"cat 4"'})
def fiftyone(folder: Path) -> None:
    samples_of_fiftyone(folder, lambda n: {"_cls": "Classification", "tags": [], "label": f"cat {n}"})


@card(
    samples={f"data/{n:06d}": "jpg json" for n in range(1, 6)},
    holds={"data/000004": ('{"category":"cat","bbox":[0.8,1.2,4,3]', '"confidence":0.4', '"field":"ground_truth"')},
    sample_type="CrudeSample",
)
def fiftyone_detections(folder: Path) -> None:
    def detections(n: int) -> dict[str, Any]:
        box = {"_cls": "Detection", "tags": [], "label": "cat", "bounding_box": [0.1, 0.2, 0.5, 0.5]}
        return {"_cls": "Detections", "detections": [{**box, "confidence": n / 10}] if n > 1 else []}

    samples_of_fiftyone(folder, detections)


def samples_of_fiftyone(folder: Path, ground_truth: Callable[[int], dict[str, Any]]) -> None:
    write(folder, [f"data/{n:06d}.jpg" for n in range(1, 6)])
    samples = [
        {
            "_id": {"$oid": f"{n:024x}"},
            "filepath": f"data/{n:06d}.jpg",
            "tags": ["validation"],
            "_media_type": "image",
            "_rand": 0.1 * n,
            "ground_truth": ground_truth(n),
        }
        for n in range(1, 6)
    ]
    write(folder, {"samples.json": json.dumps({"samples": samples}), "frames.json": json.dumps({"frames": []})})
    write(folder, {"metadata.json": json.dumps({"version": "1.0", "name": "cats", "media_type": "image", "info": {}})})


@card(
    samples={
        f"{folder}/data/{n:06d} | {n:06d}": f"{split}: jpg json | {split}: cls jpg | {split}: cls jpg json"
        for folder, split, numbers in (("train", "train", range(1, 6)), ("validation", "val", range(6, 9)))
        for n in numbers
    },
)
def fiftyone_classification(folder: Path) -> None:
    for split, numbers in (("train", range(1, 6)), ("validation", range(6, 9))):
        write(folder, [f"{split}/data/{n:06d}.jpg" for n in numbers])
        document = {"classes": ["cat", "dog"], "labels": {f"{n:06d}": n % 2 for n in numbers}}
        write(folder, {f"{split}/labels.json": json.dumps(document)})
