"""Public data sets of pictures, as their cards describe the files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.layouts.answers import any_first
from tests.layouts.layout import card, picture, write

CATEGORIES = [{"id": 1, "name": "cat", "supercategory": "animal"}, {"id": 2, "name": "dog", "supercategory": "animal"}]


def coco(names: Iterable[str], kind: str) -> str:
    """Return a file of COCO: ids of pictures are the numbers in their names."""
    images = [
        {"id": number, "file_name": name, "width": 8, "height": 6, "license": 3, "coco_url": f"http://x.org/{name}"}
        for number, name in enumerate(names, start=1)
    ]
    fields: dict[str, dict[str, Any]] = {
        "captions": {},
        "instances": {"bbox": [1, 1, 2, 2], "area": 4, "iscrowd": 0, "segmentation": []},
        "person_keypoints": {"bbox": [1, 1, 2, 2], "num_keypoints": 1, "keypoints": [1, 1, 2]},
    }
    annotations = [
        {"id": 10 + number, "image_id": image["id"], "category_id": 1 + number % 2, **fields[kind]}
        for number, image in enumerate(images)
    ]
    for number, annotation in enumerate(annotations):
        if kind == "captions":
            del annotation["category_id"]
            annotation["caption"] = f"picture {images[number]['file_name']}"
    document = {"info": {"year": 2017}, "licenses": [{"id": 3, "name": "x"}], "images": images}
    return json.dumps({**document, "annotations": annotations, "categories": CATEGORIES})


TRAIN = [f"{number:012d}" for number in (9, 25, 30, 34, 36, 42)]
VAL = [f"{number:012d}" for number in (139, 285, 632)]
KEYPOINTS = TRAIN[:4]


@card(
    samples={
        **{
            f"train2017/{name}": f"train: instances.json jpg json txt {'person_keypoints.json' * (name in KEYPOINTS)}"
            for name in TRAIN
        },
        **{f"val2017/{name}": "val: instances.json jpg json person_keypoints.json txt" for name in VAL},
    },
    sample_type="CaptioningSample",
    texts={f"train2017/{TRAIN[0]}.txt": f"picture {TRAIN[0]}.jpg"},
    holds={f"train2017/{TRAIN[1]}": ('"dog"', '"bbox"')},
)
def coco_2017(folder: Path) -> None:
    for split, names in (("train2017", TRAIN), ("val2017", VAL)):
        write(folder, [f"{split}/{name}.jpg" for name in names])
        for kind in ("instances", "captions", "person_keypoints"):
            kept = names if kind != "person_keypoints" or split == "val2017" else KEYPOINTS
            write(folder, {f"annotations/{kind}_{split}.json": coco([f"{name}.jpg" for name in kept], kind)})


@card(error="annotations/instances_val2017.json cannot be read: this is not valid JSON: Input data was truncated")
def coco_2017_with_a_cut_file(folder: Path) -> None:
    for split, names in (("train2017", TRAIN), ("val2017", VAL)):
        write(folder, [f"{split}/{name}.jpg" for name in names])
        document = coco([f"{name}.jpg" for name in names], "instances")
        write(folder, {f"annotations/instances_{split}.json": document[: -40 if split == "val2017" else None]})


@card(
    samples={f"train2017/{n:012d}": "jpg json" if n < 2 else "jpg" for n in range(4)},
    left_out={"rows F101": 3, "parts F101": 3},
    note="objects of categories that are not defined: 1, such as 9",
)
def coco_with_an_id_twice(folder: Path) -> None:
    # The numbers of boxes name no pictures, so that the fault is said: two pictures have one id.
    names = [f"{n:012d}.jpg" for n in range(4)]
    write(folder, [f"train2017/{name}" for name in names])
    images = [{"id": min(n, 2), "file_name": name, "width": 8, "height": 6} for n, name in enumerate(names)]
    box = {"bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}
    boxes = [{"id": n, "image_id": n, "category_id": 1 if n else 9, **box} for n in (0, 1, 2, 77)]
    document = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    write(folder, {"annotations/instances_train2017.json": json.dumps(document)})


PANOPTIC = [f"{number:012d}" for number in (139, 285, 632, 724, 776)]


@card(
    samples={
        f"val2017/{name} | {name}": " | ".join(
            f"jpg json {mask}" for mask in ("png", "panoptic_val2017.png", "mask.png")
        )
        for name in PANOPTIC
    },
    holds={
        f"val2017/{PANOPTIC[1]} | {PANOPTIC[1]}": (
            '"objects":[{"file_name":"000000000285.png","id":3226956',
            '"category":"cat"',
        )
    },
    sample_type="CrudeSample",
)
def coco_panoptic(folder: Path) -> None:
    for at, name in enumerate(PANOPTIC):
        size = (8 + at, 6)
        write(folder, {f"val2017/{name}.jpg": picture("JPEG", size)})
        write(folder, {f"annotations/panoptic_val2017/{name}.png": picture("PNG", size, "P")})
    images = [{"id": int(name), "file_name": f"{name}.jpg", "width": 8, "height": 6} for name in PANOPTIC]
    segment = {"id": 3226956, "category_id": 1, "iscrowd": 0, "bbox": [1, 1, 2, 2], "area": 4}
    annotations = [{"image_id": int(name), "file_name": f"{name}.png", "segments_info": [segment]} for name in PANOPTIC]
    document = {"info": {}, "images": images, "annotations": annotations, "categories": CATEGORIES}
    write(folder, {"annotations/panoptic_val2017.json": json.dumps(document)})


@card(
    samples={f"train_val2019/Plants/400/{n:04x}": f"{'train' if n < 6 else 'val'}: jpg json" for n in range(8)},
    holds={"train_val2019/Plants/400/0001": '"category_id":2'},
)
def inaturalist(folder: Path) -> None:
    names = [f"train_val2019/Plants/400/{n:04x}.jpg" for n in range(8)]
    write(folder, names)
    for split, chosen in (("train2019", range(6)), ("val2019", range(6, 8))):
        images = [
            {"license": 3, "file_name": names[n], "rights_holder": "x", "width": 8, "height": 6, "id": n}
            for n in chosen
        ]
        annotations = [{"id": n, "image_id": n, "category_id": 1 + n % 2} for n in chosen]
        categories = [{"id": 1, "name": "400"}, {"id": 2, "name": "401"}]
        document = {"info": {}, "images": images, "annotations": annotations, "categories": categories}
        write(folder, {f"{split}.json": json.dumps(document)})


VOC = [f"2007_{number:06d}" for number in (27, 32, 33, 39, 42, 61, 63, 68)]


@card(
    samples={
        f"VOCdevkit/VOC2007/{name} | VOCdevkit/VOC2007/JPEGImages/{name}": (
            f"{'train' if at < 5 else 'val'}: jpg json {'segmentationclass.png' * (at % 2)}"
        )
        for at, name in enumerate(VOC)
    },
    sample_type="CrudeSample",
    holds={
        f"VOCdevkit/VOC2007/{VOC[0]} | VOCdevkit/VOC2007/JPEGImages/{VOC[0]}": (
            '{"category":"cat","bbox":[0,1,3,4]',
            '"difficult":1',
            '"width":8',
            '"database":"The VOC2007 Database"',
        )
    },
)
def pascal_voc_2007(folder: Path) -> None:
    root = "VOCdevkit/VOC2007"
    corners = "<xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>5</ymax>"
    boxes = f"<object><name>cat</name><difficult>1</difficult><bndbox>{corners}</bndbox></object>"
    size = "<source><database>The VOC2007 Database</database></source><size><width>8</width><height>6</height></size>"
    write(folder, [f"{root}/JPEGImages/{name}.jpg" for name in VOC])
    write(folder, [f"{root}/SegmentationClass/{name}.png" for name in VOC[1::2]])
    for name in VOC:
        xml = f"<annotation><folder>VOC2007</folder><filename>{name}.jpg</filename>{size}{boxes}</annotation>"
        write(folder, {f"{root}/Annotations/{name}.xml": xml})
    for split, names in (("train", VOC[:5]), ("val", VOC[5:]), ("trainval", VOC)):
        write(folder, {f"{root}/ImageSets/Main/{split}.txt": "".join(f"{name}\n" for name in names)})


PEDESTRIAN = "Pedestrian 0.00 0 -0.20 1.00 2.00 4.00 3.50 1.89 0.48 1.20 1.84 1.47 8.41 0.01\n"


def kitti_parts(split: str, labels: str) -> str:
    views = ("png image_3.png", "image_2.png image_3.png")
    return " | ".join(f"{split}: bin calib.txt{'' if labels else '?'} {view} {labels}" for view in views)


@card(
    samples={
        **{f"training/{n:06d}": kitti_parts("train", "json") for n in range(5)},
        **{
            f"testing/{n:06d}": " | ".join(
                f"test: bin {v} {t}"
                for v in ("png image_3.png", "image_2.png image_3.png")
                for t in ("txt", "calib.txt")
            )
            for n in range(3)
        },
    },
    holds={"training/000003": ('{"category":"Pedestrian","bbox":[1,2,3,1.5]', "P0: 3")},
)
def kitti_object(folder: Path) -> None:
    for split, count in (("training", 5), ("testing", 3)):
        for n in range(count):
            size = (8 + n, 6)
            write(folder, {f"{split}/{camera}/{n:06d}.png": picture("PNG", size) for camera in ("image_2", "image_3")})
            write(
                folder, {f"{split}/calib/{n:06d}.txt": f"P0: {n}\nP1: 1\n", f"{split}/velodyne/{n:06d}.bin": bytes(16)}
            )
            if split == "training":
                write(folder, {f"{split}/label_2/{n:06d}.txt": PEDESTRIAN})


CUB = ["001.Black_footed_Albatross/Black_Footed_Albatross_0046_18", "002.Laysan_Albatross/Laysan_Albatross_0002_1027"]
BIRDS = [f"{name}{n}" for name in CUB for n in range(4)]


@card(
    samples={
        f"CUB_200_2011/images/{name}": (
            "bounding_boxes.json classes.json image_class_labels.json jpg json train_test_split.json"
        )
        for name in BIRDS
    },
)
def cub_200_2011(folder: Path) -> None:
    root = "CUB_200_2011"
    write(folder, [f"{root}/images/{name}.jpg" for name in BIRDS])
    numbers = [*enumerate(BIRDS, start=1)]
    tables = {
        "images": [f"{n} {name}.jpg" for n, name in numbers],
        "image_class_labels": [f"{n} {name[2]}" for n, name in numbers],
        "train_test_split": [f"{n} {n % 2}" for n, _ in numbers],
        "bounding_boxes": [f"{n} {n}.0 27.0 325.0 304.0" for n, _ in numbers],
        "classes": [f"{name[2]} {name.partition('/')[0]}" for name in CUB],
    }
    write(folder, {f"{root}/{name}.txt": "".join(f"{line}\n" for line in lines) for name, lines in tables.items()})
    write(folder, {f"{root}/README": "The images are in images/, and their ids in images.txt."})


IDS = [f"{0xABC0000 + 7919 * n:016x}" for n in range(8)]


@card(
    samples={name: f"{'train' if at < 5 else 'val'}: annotations-bbox.json jpg json" for at, name in enumerate(IDS)},
    holds={IDS[0]: ("/m/011k07", "an author 0")},
)
def open_images(folder: Path) -> None:
    of_split = {"train": IDS[:5], "validation": IDS[5:]}
    for split, names in of_split.items():
        write(folder, [f"{split}/{name}.jpg" for name in names])
        images = "".join(
            f"{name},{split},https://x.org/{n}.jpg,https://x.org/p/{n},by,https://x.org/a,an author {n},a title,120,"
            f"md5{n}==,https://x.org/t{n}.jpg,0.0\n"
            for n, name in enumerate(names)
        )
        header = "ImageID,Subset,OriginalURL,OriginalLandingURL,License,AuthorProfileURL,Author,Title,OriginalSize,"
        write(
            folder,
            {f"{split}-images-boxable-with-rotation.csv": f"{header}OriginalMD5,Thumbnail300KURL,Rotation\n{images}"},
        )
        boxes = "".join(
            f"{name},xclick,/m/0{label},1,0.{n}1,0.9,0.1,0.9,0,0,0,0,0\n"
            for n, name in enumerate(names)
            for label in ("11k07", "1bjv")[: 1 + n % 2]
        )
        header = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,"
        write(folder, {f"{split}-annotations-bbox.csv": f"{header}IsDepiction,IsInside\n{boxes}"})
    write(folder, {"class-descriptions-boxable.csv": "/m/011k07,Tortoise\n/m/01bjv,Bus\n"})


SCENES = [("VG_100K", 1), ("VG_100K", 2), ("VG_100K", 3), ("VG_100K_2", 713), ("VG_100K_2", 715)]


@card(
    samples={
        f"{folder}/{n} | {n}": any_first("image_data", "objects", "region_descriptions", parts="jpg")
        for folder, n in SCENES
    },
    holds={"VG_100K/2 | 2": ("a clock 2", "flickr_id", "clock.n.01")},
)
def visual_genome(folder: Path) -> None:
    write(folder, [f"{name}/{n}.jpg" for name, n in SCENES])
    url = "https://cs.stanford.edu/people/rak248"
    box = {"x": 1, "y": 2, "h": 3}
    data = [
        {"width": 8, "url": f"{url}/{name}/{n}.jpg", "height": 6, "image_id": n, "coco_id": None, "flickr_id": 900 + n}
        for name, n in SCENES
    ]
    clock = {"synsets": ["clock.n.01"], "names": ["clock"], "w": 2, **box}
    objects = [
        {"image_id": n, "objects": [{**clock, "object_id": 5000 + n}], "image_url": f"{url}/{name}/{n}.jpg"}
        for name, n in SCENES
    ]
    regions = [
        {"id": n, "regions": [{"region_id": 1300 + n, "width": 4, "image_id": n, "phrase": f"a clock {n}", **box}]}
        for _, n in SCENES
    ]
    for name, value in (("image_data", data), ("objects", objects), ("region_descriptions", regions)):
        write(folder, {f"{name}.json": json.dumps(value)})


DEFECTS = {"bottle": ("broken_large", "contamination"), "cable": ("bent_wire", "cut_outer")}


@card(
    samples={
        **{f"{thing}/train/good/{n:03d}": "train: png" for thing in DEFECTS for n in range(5)},
        **{f"{thing}/test/good/{n:03d}": "test: png" for thing in DEFECTS for n in range(2)},
        **{
            f"{thing}/test/{defect}/{n:03d}": "test: mask.png png"
            for thing, defects in DEFECTS.items()
            for defect in defects
            for n in range(2)
        },
    }
)
def mvtec(folder: Path) -> None:
    for thing, defects in DEFECTS.items():
        write(folder, [f"{thing}/train/good/{n:03d}.png" for n in range(5)])
        write(folder, [f"{thing}/test/good/{n:03d}.png" for n in range(2)])
        for path in (f"{defect}/{n:03d}" for defect in defects for n in range(2)):
            mask = picture("PNG", mode="L")
            write(folder, {f"{thing}/test/{path}.png": picture("PNG"), f"{thing}/ground_truth/{path}_mask.png": mask})


@card(samples={f"{thing}/train/good/{n:03d}": "png" for thing in DEFECTS for n in range(5)})
def mvtec_without_a_test(folder: Path) -> None:
    write(folder, [f"{thing}/train/good/{n:03d}.png" for thing in DEFECTS for n in range(5)])


@card(error="the same path but for the folder: A, B")
def pairs_of_numbered_pictures(folder: Path) -> None:
    write(folder, [f"{side}/{split}/{n}.png" for side in "AB" for split in ("train", "test") for n in range(4)])
