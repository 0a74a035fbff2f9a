"""Files of competitions: tables of labels next to pictures, whose test part has no labels."""

from __future__ import annotations

import json
from pathlib import Path

from tests.layouts.answers import any_first
from tests.layouts.cards_speech import tsv
from tests.layouts.layout import card, picture, write

SYNSETS = {"n01440764": "tench, Tinca tinca", "n01443537": "goldfish, Carassius auratus"}
TRAIN = [(synset, f"{synset}_{n}") for synset in SYNSETS for n in range(10026, 10032)]
VAL = [f"ILSVRC2012_val_{n:08d}" for n in range(1, 6)]
TEST = [f"ILSVRC2012_test_{n:08d}" for n in range(1, 5)]


def imagenet_answer(root: str, extra: str) -> dict[str, str]:
    """Return the samples: the mapping of classes joins pictures in folders of classes only."""
    row = ("txt", "json", "cls json", "cls txt")
    train = {
        f"{name} | {root}train/{synset}/{name}": " | ".join(
            f"train: jpg loc_synset_mapping.json? {r} {extra}" for r in row
        )
        for synset, name in TRAIN
    }
    val = {f"{name} | {root}val/{name}": " | ".join(f"val: jpg {r} {extra}" for r in row) for name in VAL}
    return {**train, **val}


def imagenet_tables(folder: Path, root: str) -> None:
    write(folder, [f"{root}train/{synset}/{name}.JPEG" for synset, name in TRAIN])
    write(folder, [f"{root}val/{name}.JPEG" for name in VAL])
    train = [[name, f"{synset} 1 2 7 5 "] for synset, name in TRAIN]
    val = [[name, f"{[*SYNSETS][n % 2]} 85 1 499 272 "] for n, name in enumerate(VAL)]
    for split, rows in (("train", train), ("val", val)):
        write(folder, {f"LOC_{split}_solution.csv": tsv("ImageId PredictionString", rows, ",")})
    write(folder, {"LOC_synset_mapping.txt": "".join(f"{synset} {name}\n" for synset, name in SYNSETS.items())})


IMAGENET_HOLDS = {f"{VAL[1]} | val/{VAL[1]}": "n01443537 85 1 499 272"}


@card(samples=imagenet_answer("", ""), holds=IMAGENET_HOLDS)
def imagenet_solutions(folder: Path) -> None:
    imagenet_tables(folder, "")


CLS = "ILSVRC/Data/CLS-LOC/"


@card(
    samples={
        **imagenet_answer(CLS, "xml loc__solution.json? loc_solution.json? cls.json? train_cls.json? val.json?"),
        **{f"? {name} | {CLS}test/{name}": "test: jpg json? cls? | -: jpg json? cls?" for name in TEST},
    },
    holds={f"{VAL[1]} | {CLS}val/{VAL[1]}": ("n01443537 85 1 499 272", f"<filename>{VAL[1]}")},
)
def imagenet_of_kaggle(folder: Path) -> None:
    imagenet_tables(folder, CLS)
    write(folder, [f"{CLS}test/{name}.JPEG" for name in TEST])
    write(
        folder,
        {"LOC_sample_submission.csv": tsv("ImageId PredictionString", [[name, "1 0 0 1 1"] for name in TEST], ",")},
    )
    for path in [*(f"train/{synset}/{name}" for synset, name in TRAIN), *(f"val/{name}" for name in VAL)]:
        xml = f"<annotation><filename>{path.rpartition('/')[2]}</filename><object/></annotation>"
        write(folder, {f"ILSVRC/Annotations/CLS-LOC/{path}.xml": xml})
    sets = {
        "train_cls": [f"{synset}/{name} {n}" for n, (synset, name) in enumerate(TRAIN, start=1)],
        "val": [f"{name} {n}" for n, name in enumerate(VAL, start=1)],
        "test": [f"{name} {n}" for n, name in enumerate(TEST, start=1)],
    }
    write(
        folder,
        {
            f"ILSVRC/ImageSets/CLS-LOC/{name}.txt": "".join(f"{line}\n" for line in lines)
            for name, lines in sets.items()
        },
    )


FACES = [f"{n:06d}" for n in range(1, 9)]
FACE_TABLES = ("list_attr_celeba", "list_bbox_celeba", "list_eval_partition", "list_landmarks_align_celeba")


@card(
    samples={f"img_align_celeba/img_align_celeba/{name}": any_first(*FACE_TABLES, parts="jpg") for name in FACES},
    holds={f"img_align_celeba/img_align_celeba/{FACES[4]}": ("Attractive", "partition", "lefteye_x", "x_1")},
)
def celeba(folder: Path) -> None:
    write(folder, [f"img_align_celeba/img_align_celeba/{name}.jpg" for name in FACES])
    columns = {
        "list_attr_celeba": "image_id Attractive Bald",
        "list_bbox_celeba": "image_id x_1 y_1",
        "list_eval_partition": "image_id partition",
        "list_landmarks_align_celeba": "image_id lefteye_x lefteye_y",
    }
    for table, header in columns.items():
        width = len(header.split()) - 1
        rows = [
            [f"{name}.jpg", *([n % 3 if table == "list_eval_partition" else n % 2 * 2 - 1] * width)]
            for n, name in enumerate(FACES)
        ]
        write(folder, {f"{table}.csv": tsv(header, rows, ",")})


EYES = {
    "train": [f"{0xC1434D8D7 + 7919 * n:012x}" for n in range(8)],
    "test": [f"{0xD005E9C5F + n:012x}" for n in range(4)],
}


@card(
    samples={
        **{
            f"train_images/{name}": " | ".join(f"train: {p} png" for p in ("cls", "json", "cls json"))
            for name in EYES["train"]
        },
        **{f"test_images/{name}": "test: png" for name in EYES["test"]},
    },
)
def aptos_2019(folder: Path) -> None:
    write(folder, [f"{part}_images/{name}.png" for part, names in EYES.items() for name in names])
    write(folder, {"train.csv": tsv("id_code diagnosis", [[name, n % 5] for n, name in enumerate(EYES["train"])], ",")})
    write(folder, {"test.csv": tsv("id_code", [[name] for name in EYES["test"]])})
    write(folder, {"sample_submission.csv": tsv("id_code diagnosis", [[name, 0] for name in EYES["test"]], ",")})


@card(
    samples={f"{n}": "cls jpg | jpg txt | jpg json | cls json jpg" for n in range(1, 9)},
    sample_type="ImageClassificationSample",
    holds={"3": "dog"},
)
def labels_by_id(folder: Path) -> None:
    write(folder, [f"train/{n}.jpg" for n in range(1, 9)])
    write(folder, {"labels.csv": tsv("id label", [[n, ("cat", "dog")[n % 2]] for n in range(1, 9)], ",")})


@card(
    samples={f"train/{kind}_{n}": "jpg" for kind in ("cat", "dog") for n in range(6)},
    sample_type="ImageSample",
    forms=("folder", "zip"),  # in a tar, the part name begins at the first dot
)
def dogs_versus_cats(folder: Path) -> None:
    write(folder, [f"train/{kind}.{n}.jpg" for kind in ("cat", "dog") for n in range(6)])


PRODUCTS = (15970, 39386, 59263, 21379, 53759, 1855)


@card(
    samples={f"{n}": "jpg json styles.json | jpg json columns.json" for n in PRODUCTS},
    holds={"59263": ("Titan Watch 2", '"price"')},
)
def fashion_products(folder: Path) -> None:
    write(folder, [f"images/{n}.jpg" for n in PRODUCTS])
    write(
        folder,
        {f"styles/{n}.json": json.dumps({"meta": {"code": 200}, "data": {"id": n, "price": 895}}) for n in PRODUCTS},
    )
    rows = [[n, "Men", "Apparel", f"Shirts {at}", 2011 + at, f"Titan Watch {at}"] for at, n in enumerate(PRODUCTS)]
    write(folder, {"styles.csv": tsv("id gender masterCategory articleType year productDisplayName", rows, ",")})


PLACES = [
    f"{n:016x}"
    for n in (0x6E158A47EB2CA3F6, 0x202CD79556F30760, 0x3AD87684C99C06E1, 0xE7F70E9C61E66AF3, 0x4072182EDDD0100E)
]


@card(
    samples=dict.fromkeys(PLACES, "jpg json | cls jpg json"),
    holds={PLACES[3]: "142823"},
)
def landmarks(folder: Path) -> None:
    write(folder, [f"train/{name[0]}/{name[1]}/{name[2]}/{name}.jpg" for name in PLACES])
    rows = [[name, f"https://upload.wikimedia.org/{n}/picture_{n}.jpg", 142820 + n] for n, name in enumerate(PLACES)]
    write(folder, {"train.csv": tsv("id url landmark_id", rows, ",")})


ROOMS = [f"ADE_{split}_{n:08d}" for split, count in (("train", 6), ("val", 3)) for n in range(1, count + 1)]


def room_folder(name: str) -> str:
    return "training" if "train" in name else "validation"


@card(
    samples={
        f"images/{room_folder(name)}/{name} | {room_folder(name)}/{name}": (
            " | ".join(f"{name[4:7].replace('tra', 'train')}: jpg {mask} txt" for mask in ("png", "annotations.png"))
        )
        for name in ROOMS
    },
    holds={f"images/validation/{ROOMS[7]} | validation/{ROOMS[7]}": "airport_7"},
)
def ade_20k(folder: Path) -> None:
    for at, name in enumerate(ROOMS):
        size, path = (8 + at, 6), f"{room_folder(name)}/{name}"
        write(
            folder, {f"images/{path}.jpg": picture("JPEG", size), f"annotations/{path}.png": picture("PNG", size, "L")}
        )
    write(folder, {"sceneCategories.txt": "".join(f"{name} airport_{at}\n" for at, name in enumerate(ROOMS))})
    write(folder, {"objectInfo150.txt": "Idx\tRatio\tTrain\tVal\tStuff\tName\n1\t0.1576\t11664\t1172\t1\twall\n"})


LISTED = [f"train/{scene}/{n:05d}" for scene in ("abbey", "alley") for n in range(4)]


@card(
    samples={
        **{name: " | ".join(f"train: {p}" for p in ("cls jpg", "jpg json")) for name in LISTED},
        **{f"val/{n:05d}": " | ".join(f"val: {p}" for p in ("cls jpg", "jpg json")) for n in range(3)},
    },
)
def lists_of_paths_and_classes(folder: Path) -> None:
    write(folder, [f"{name}.jpg" for name in LISTED])
    write(folder, [f"val/{n:05d}.jpg" for n in range(3)])
    write(folder, {"meta/train.txt": "".join(f"{name}.jpg {int('alley' in name)}\n" for name in LISTED)})
    write(folder, {"meta/val.txt": "".join(f"val/{n:05d}.jpg {n % 2}\n" for n in range(3))})


CITY = [(city, f"{city}_{n:06d}_000019") for city in ("aachen", "bochum") for n in range(3)]


@card(
    samples={
        f"train/{city}/{name} | leftImg8bit/train/{city}/{name}": (
            "gtfine_color.png gtfine_labelids.png gtfine_polygons.json leftimg8bit.png"
        )
        for city, name in CITY
    },
)
def cityscapes(folder: Path) -> None:
    for at, (city, name) in enumerate(CITY):
        size, end = (8 + at, 6), f"train/{city}/{name}"
        write(folder, {f"leftImg8bit/{end}_leftImg8bit.png": picture("PNG", size)})
        write(
            folder,
            {
                f"gtFine/{end}_gtFine_{kind}.png": picture("PNG", size, mode)
                for kind, mode in (("color", "P"), ("labelIds", "L"))
            },
        )
        write(
            folder,
            {f"gtFine/{end}_gtFine_polygons.json": json.dumps({"imgHeight": 6, "imgWidth": size[0], "objects": []})},
        )
