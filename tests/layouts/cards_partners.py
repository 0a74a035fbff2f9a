"""Public data sets whose files belong together by pieces of their names, as their cards describe the files."""

from __future__ import annotations

import json
from pathlib import Path

from tests.layouts.layout import card, picture, write

FLOWERS = {
    split: [f"{n}/image_{n:02d}{k}" for n in (1, 2, 10) for k in range(count)]
    for split, count in (("train", 4), ("valid", 2))
}


@card(
    samples={
        **{
            f"{split}/{name}": f"{split.removesuffix('id')}: cls jpg json"
            for split in FLOWERS
            for name in FLOWERS[split]
        },
        **{f"test/image_{n}": "test: jpg" for n in range(3)},
    },
    sample_type="ImageClassificationSample",
    holds={"train/10/image_101": '"10"'},
    note="there are no classes in test",
)
def flowers_102_with_a_flat_test(folder: Path) -> None:
    write(folder, [f"{split}/{name}.jpg" for split in FLOWERS for name in FLOWERS[split]])
    write(folder, [f"test/image_{n}.jpg" for n in range(3)])
    write(folder, {"cat_to_name.json": json.dumps({"1": "pink primrose", "2": "pocket orchid", "10": "thistle"})})


FLICKR = [f"10002682{n}_693b08cb0e" for n in range(6)]


@card(
    samples={
        f"Flicker8k_Dataset/{name}{again}": f"{'train' if n < 4 else 'val' if n == 4 else 'test'}: jpg txt"
        for n, name in enumerate(FLICKR)
        for again in ("", "-2", "-3")
    },
    sample_type="CaptioningSample",
    holds={f"Flicker8k_Dataset/{FLICKR[2]}-3": "A child 2 in 2 ."},
)
def flickr_8k_with_numbered_captions(folder: Path) -> None:
    write(folder, [f"Flicker8k_Dataset/{name}.jpg" for name in FLICKR])
    rows = [f"{name}.jpg#{k}\tA child {k} in {n} .\n" for n, name in enumerate(FLICKR) for k in range(3)]
    write(folder, {"Flickr8k.token.txt": "".join(rows)})
    for split, names in (("train", FLICKR[:4]), ("dev", FLICKR[4:5]), ("test", FLICKR[5:])):
        write(folder, {f"Flickr_8k.{split}Images.txt": "".join(f"{name}.jpg\n" for name in names)})


def isic(part: str, at: int) -> list[str]:
    return [f"ISIC_{n:07d}" for n in range(at, at + (5 if part == "Training" else 2))]


@card(
    samples={
        f"{split}/{name}": f"{split}: jpg segmentation.png"
        for split, part, at in (("train", "Training", 0), ("val", "Validation", 12))
        for name in isic(part, at)
    },
    sample_type="CrudeWebdataset|CrudeSample",
)
def isic_2018_task_1(folder: Path) -> None:
    for part, at in (("Training", 0), ("Validation", 12)):
        for name in isic(part, at):
            write(folder, [f"ISIC2018_Task1-2_{part}_Input/{name}.jpg"])
            masks = f"ISIC2018_Task1_{part}_GroundTruth/{name}_segmentation.png"
            write(folder, {masks: picture("PNG", mode="L")})


TUMOURS = [f"BT_{n:03d}" for n in range(6)]


@card(
    samples={
        f"Dataset001_BT/{name} | {name}": f"0000.nii.gz 0001.nii.gz {'labelstr.nii.gz' * (at < 4)}"
        for at, name in enumerate(TUMOURS)
    },
)
def nnunet_with_two_channels(folder: Path) -> None:
    for at, name in enumerate(TUMOURS):
        images = f"Dataset001_BT/images{'Tr' if at < 4 else 'Ts'}"
        write(folder, [f"{images}/{name}_{channel:04d}.nii.gz" for channel in range(2)])
    write(folder, [f"Dataset001_BT/labelsTr/{name}.nii.gz" for name in TUMOURS[:4]])
    document = {"channel_names": {"0": "T1", "1": "T2"}, "labels": {"tumor": 1}, "numTraining": 4}
    write(folder, {"Dataset001_BT/dataset.json": json.dumps(document)})


@card(
    samples={
        f"{split}/img_{n}": f"{split}: gt.txt jpg" for split, count in (("train", 5), ("test", 3)) for n in range(count)
    },
    holds={"test/img_1": "World 1"},
)
def icdar_2015(folder: Path) -> None:
    for n in range(5):
        box = "10,10,20,10,20,20,10,20"
        write(folder, [f"ch4_training_images/img_{n}.jpg"])
        write(folder, {f"ch4_training_localization_transcription_gt/gt_img_{n}.txt": f"{box},Hello {n}\r\n"})
        if n < 3:
            write(folder, [f"ch4_test_images/img_{n}.jpg"])
            write(folder, {f"Challenge4_Test_Task1_GT/gt_img_{n}.txt": f"{box},World {n}\r\n"})


SCENES = {
    f"images/ADE/{folder}/urban/street/ADE_{part}_{n:08d}": part
    for folder, part, count in (("training", "train", 4), ("validation", "val", 2))
    for n in range(count)
}


@card(
    samples={
        name: f"{part}: instance_000_x.png instance_001_x.png jpg json parts_1.png seg.png"
        for name, part in SCENES.items()
    },
)
def ade_20k_2021(folder: Path) -> None:
    for name in SCENES:
        write(folder, [f"{name}.jpg", f"{name}_seg.png", f"{name}_parts_1.png"])
        write(folder, [f"{name}/instance_{n:03d}_x.png" for n in range(2)])
        write(folder, {f"{name}.json": json.dumps({"annotation": {"object": []}})})


GLANDS = [f"{part}_{n}" for part in ("train", "testA", "testB") for n in range(1, 4)]


@card(
    samples=dict.fromkeys(GLANDS, "anno.bmp bmp json"),
    holds={"testA_2": "benign"},
    options={"splits": False},
)
def glands_with_a_table(folder: Path) -> None:
    for at, name in enumerate(GLANDS):
        write(folder, {f"{name}{suffix}.bmp": picture("BMP", (8 + at, 6)) for suffix in ("", "_anno")})
    rows = "".join(f"{name}, {at}, benign\n" for at, name in enumerate(GLANDS))
    write(folder, {"Grade.csv": f"name, patient ID, grade (GlaS)\n{rows}"})


@card(error="there is no role for Annotations/Faces_easy/annotation_0001.mat")
def caltech_101(folder: Path) -> None:
    for kind in ("accordion", "Faces_easy"):
        write(folder, [f"101_ObjectCategories/{kind}/image_{n:04d}.jpg" for n in range(1, 5)])
        write(folder, {f"Annotations/{kind}/annotation_{n:04d}.mat": b"MATLAB 5.0" for n in range(1, 5)})


CASES = [f"case_{n:05d}" for n in range(5)]


@card(
    samples={
        f"data/{name} | {name}": f"imaging.nii.gz kits.json {'segmentation.nii.gz' * (name != CASES[4])}"
        for name in CASES
    },
    holds={f"data/{CASES[4]} | {CASES[4]}": "54"},
)
def kits_2019(folder: Path) -> None:
    write(folder, [f"data/{name}/imaging.nii.gz" for name in CASES])
    write(folder, [f"data/{name}/segmentation.nii.gz" for name in CASES[:4]])
    rows = [{"case_id": name, "age": 50 + at} for at, name in enumerate(CASES)]
    write(folder, {"data/kits.json": json.dumps(rows)})


STREETS = {
    f"{split}/{city}/{city}_{n:06d}_000019": split
    for split, city in (("train", "aachen"), ("train", "bochum"), ("val", "frankfurt"))
    for n in range(3)
}


@card(
    samples={
        name: f"{split}: camera.json gtfine_color.png gtfine_polygons.json leftimg8bit.png"
        for name, split in STREETS.items()
    },
)
def cityscapes_with_cameras(folder: Path) -> None:
    for name in STREETS:
        write(folder, [f"leftImg8bit/{name}_leftImg8bit.png"])
        write(folder, {f"gtFine/{name}_gtFine_color.png": picture("PNG", mode="L")})
        write(folder, {f"gtFine/{name}_gtFine_polygons.json": json.dumps({"objects": [{"label": "car"}]})})
        write(folder, {f"camera/{name}_camera.json": json.dumps({"extrinsic": {}})})


PEOPLE = [f"lfw/{name}/{name}_{n:04d}" for name in ("Ann_Lee", "George_Bush", "Tony_Blair") for n in range(1, 4)]


@card(samples=dict.fromkeys(PEOPLE, "cls jpg json"), sample_type="ImageClassificationSample")
def faces_in_the_wild_with_pairs(folder: Path) -> None:
    write(folder, [f"{name}.jpg" for name in PEOPLE])
    same = "George_Bush\t1\t2\nTony_Blair\t1\t3\nAnn_Lee\t2\t3\n"
    write(folder, {"pairs.txt": f"1\t3\n{same}George_Bush\t1\tTony_Blair\t2\nAnn_Lee\t1\tGeorge_Bush\t3\n"})


PLACES = [
    f"{kind}/sun_{at}{n}"
    for at, kind in enumerate(("a/abbey", "a/apartment/outdoor", "b/bar", "b/beach"))
    for n in range(3)
]


@card(samples=dict.fromkeys(PLACES, "cls jpg json"), holds={"a/apartment/outdoor/sun_11": '"apartment/outdoor"'})
def sun_397(folder: Path) -> None:
    write(folder, [f"{name}.jpg" for name in PLACES])
    write(folder, {"ClassName.txt": "/a/abbey\n/a/apartment/outdoor\n/b/bar\n/b/beach\n"})


STEMS = [f"Artist {n} - Song/{stem}" for n in range(3) for stem in ("mixture", "vocals", "drums")]


@card(error="(?s)--group-by parallel .*--group-by name .*--group-by folder ")
def stems_of_songs(folder: Path) -> None:
    write(folder, [f"train/{name}.wav" for name in STEMS])
