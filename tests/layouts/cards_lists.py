"""Public data sets whose lists, or the names of whose folders, tell the split parts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.layouts.cards_speech import tsv
from tests.layouts.layout import card, picture, write

BREEDS = [f"{breed}_{n}" for breed in ("Abyssinian", "beagle") for n in range(1, 6)]
PETS = {"test": BREEDS[::3], "train": [name for at, name in enumerate(BREEDS) if at % 3]}


@card(
    samples={
        f"images/{name} | {name}": f"{part}: jpg png txt xml? | {part}: jpg trimaps.png txt xml?"
        for part, names in PETS.items()
        for name in names
    }
)
def oxford_pets(folder: Path) -> None:
    write(folder, [f"images/{name}.jpg" for name in BREEDS])
    write(folder, [f"annotations/trimaps/{name}.png" for name in BREEDS])
    lines = {name: f"{name} {1 + at // 5} {1 + at % 2} {at}\n" for at, name in enumerate(BREEDS)}
    header = "#Image CLASS-ID SPECIES BREED ID\n#ID: 1:37 Class ids\n"
    write(folder, {"annotations/list.txt": header + "".join(lines.values())})
    for part, names in PETS.items():
        file = "trainval" if part == "train" else part
        write(folder, {f"annotations/{file}.txt": "".join(lines[name] for name in names)})


DISHES = {dish: [f"{dish}/{1000 * at + n}" for n in range(6)] for at, dish in enumerate(("apple_pie", "waffles"), 1)}


@card(
    samples={
        f"images/{name} | {name}": f"{part}: cls jpg json {part}.json? | {part}: jpg json"
        for names in DISHES.values()
        for part, some in (("train", names[:4]), ("test", names[4:]))
        for name in some
    }
)
def food_101(folder: Path) -> None:
    write(folder, [f"images/{name}.jpg" for names in DISHES.values() for name in names])
    for part, first, last in (("train", 0, 4), ("test", 4, 6)):
        lists = {dish: names[first:last] for dish, names in DISHES.items()}
        write(folder, {f"meta/{part}.json": json.dumps(lists)})
        write(folder, {f"meta/{part}.txt": "".join(f"{name}\n" for names in lists.values() for name in names)})
    write(folder, {"meta/classes.txt": "apple_pie\nwaffles\n", "meta/labels.txt": "Apple pie\nWaffles\n"})


RECEIPTS = [("train", f"X{n:05d}") for n in range(6)] + [("test", f"X{n:05d}") for n in range(6, 9)]


@card(samples={f"{part}/{name}": f"{part}: jpg box.txt entities.txt" for part, name in RECEIPTS})
def sroie(folder: Path) -> None:
    for at, (part, name) in enumerate(RECEIPTS):
        write(folder, [f"{part}/img/{name}.jpg"])
        write(folder, {f"{part}/box/{name}.txt": f"72,25,326,25,326,64,72,64,TAN WOON YANN {at}\n"})
        write(folder, {f"{part}/entities/{name}.txt": json.dumps({"company": f"BOOK {at}", "total": "9.00"})})


FORMS = [("train", "training_data", f"00{n}0") for n in range(6)] + [
    ("test", "testing_data", f"82{n}0") for n in range(3)
]


@card(samples={f"{folder}/{name} | {name}": f"{part}: png json" for part, folder, name in FORMS})
def funsd(folder: Path) -> None:
    for _, part, name in FORMS:
        write(folder, [f"{part}/images/{name}.png"])
        form = [{"box": [1, 2, 3, 4], "text": f"Date {name}:", "label": "question", "id": 0, "linking": []}]
        write(folder, {f"{part}/annotations/{name}.json": json.dumps({"form": form})})


@card(
    samples={
        f"DIV2K_{folder}_HR/{n:04d}": f"{part}: png"
        for part, folder, first in (("train", "train", 1), ("val", "valid", 801))
        for n in range(first, first + 4)
    }
)
def div_2k(folder: Path) -> None:
    for part, first in (("train", 1), ("valid", 801)):
        write(folder, [f"DIV2K_{part}_HR/{n:04d}.png" for n in range(first, first + 4)])


@card(
    samples={f"images/{n:03d} | {n:03d}": f"{'val' if n > 6 else 'train'}: jpg json" for n in range(10)},
    holds={f"images/{n:03d} | {n:03d}": f"first of {n}" for n in range(10)},
)
def captions_and_splits_in_documents(folder: Path) -> None:
    names = [f"{n:03d}.jpg" for n in range(10)]
    write(folder, [f"images/{name}" for name in names])
    write(folder, {"splits.json": json.dumps({"train": names[:7], "val": names[7:]})})
    captions = {name: [f"first of {n}", f"second of {n}"] for n, name in enumerate(names)}
    write(folder, {"captions.json": json.dumps(captions)})


@card(
    samples={f"im/{n:03d}": f"{'test' if n % 3 == 2 else 'train'}: jpg txt" for n in range(9)},
    sample_type="CaptioningSample",
)
def a_column_of_split_parts(folder: Path) -> None:
    write(folder, [f"im/{n:03d}.jpg" for n in range(9)])
    rows = "".join(f"{n:03d}.jpg,{'testing' if n % 3 == 2 else 'training'},a cat {n}\n" for n in range(9))
    write(folder, {"all.csv": f"name,set,text\n{rows}"})


@card(error="unclear")
def texts_in_two_languages(folder: Path) -> None:
    write(
        folder, {f"{language}/{n:03d}.txt": f"sentence {n}, {language}" for n in range(8) for language in ("en", "de")}
    )


def pictures_of_parts(train: int, others: dict[str, int]) -> dict[str, str]:
    """Return the split part of each picture."""
    parts = [*["train"] * train, *(part for part, count in others.items() for _ in range(count))]
    return {f"{n:04d}": part for n, part in enumerate(parts)}


PICTURES = pictures_of_parts(8, {"val": 4})


@card(samples={f"images/{name} | {name}": f"{part}: jpg txt" for name, part in PICTURES.items()})
def tables_with_split_parts_in_the_middle_of_their_names(folder: Path) -> None:
    write(folder, [f"images/{name}.jpg" for name in PICTURES])
    for part in ("train", "val"):
        rows = "".join(f"{name}.jpg,a cat {name}\n" for name, of in PICTURES.items() if of == part)
        write(folder, {f"ava_{part}_v2.2.csv": f"image,caption\n{rows}"})


@card(samples={f"images/{name} | {name}": f"{part}: jpg txt" for name, part in PICTURES.items()})
def lists_with_words_behind_split_parts(folder: Path) -> None:
    write(folder, [f"images/{name}.jpg" for name in PICTURES])
    write(folder, {"captions.csv": "image,caption\n" + "".join(f"{name}.jpg,a cat {name}\n" for name in PICTURES)})
    for part in ("train", "val"):
        write(folder, {f"{part}list01.txt": "".join(f"{name}.jpg\n" for name, of in PICTURES.items() if of == part)})


HOURS = {"train-clean-100": "train", "train-clean-360": "train", "dev-clean": "val", "test-clean": "test"}


@card(samples={f"{folder}/{n}": f"{part}: wav txt" for folder, part in HOURS.items() for n in range(3)})
def folders_that_begin_with_split_parts(folder: Path) -> None:
    for name in HOURS:
        write(folder, [f"{name}/{n}.wav" for n in range(3)])
        write(folder, {f"{name}/{n}.txt": f"hello {n} of {name}" for n in range(3)})


COCO = pictures_of_parts(8, {"val": 2, "test": 2})


@card(
    samples={f"{'train' if n < 8 else 'val'}2014/{n:04d}": f"{part}: jpg json" for n, part in enumerate(COCO.values())}
)
def karpathy_splits(folder: Path) -> None:
    images = [
        {"filepath": f"{'train' if n < 8 else 'val'}2014", "filename": f"{n:04d}.jpg", "split": part, "imgid": n}
        for n, part in enumerate(COCO.values())
    ]
    write(folder, [f"{image['filepath']}/{image['filename']}" for image in images])
    write(folder, {"dataset_coco.json": json.dumps({"images": images, "dataset": "coco"})})


@card(error="answers.json")
def answers_deep_inside_of_a_document(folder: Path) -> None:
    write(folder, [f"images/{n:06d}.jpg" for n in range(20)])
    answers = [{"image": f"{n:06d}.jpg", "question": f"what is {n}?", "answer": f"a cat {n}"} for n in range(20)]
    write(folder, {"answers.json": json.dumps({"data": {"dialogs": answers}})})


@card(error="unclear")
def names_that_repeat_in_each_split_part(folder: Path) -> None:
    parts = ("train", "val", "test")
    write(folder, [f"images/{part}/{n:03d}.jpg" for part in parts for n in range(4)])
    rows = "".join(f"{n:03d}.jpg,{part},{part}{n}\n" for part in parts for n in range(4))
    write(folder, {"labels.csv": f"image,split,y\n{rows}"})


@card(error="unclear")
def numbers_of_other_things(folder: Path) -> None:
    write(folder, [f"audio/{n:06d}.mp3" for n in range(1, 13)])
    write(folder, {"tracks.csv": "track_id,title\n" + "".join(f"{n},Song {n}\n" for n in range(1, 13))})
    write(folder, {"genres.csv": "genre_id,name\n" + "".join(f"{n},Genre {n}\n" for n in range(1, 6))})


UNICODE = ("caf\u00e9", "cafe\u0301", "x")


@card(samples={f"i/{name}": "jpg txt" for name in UNICODE}, holds={f"i/{name}": f"of {name!a}" for name in UNICODE})
def names_that_differ_in_their_unicode_form(folder: Path) -> None:
    write(folder, [f"i/{name}.jpg" for name in UNICODE])
    write(folder, {"m.csv": "file,caption\n" + "".join(f"{name}.jpg,of {name!a}\n" for name in UNICODE)})


VOC_2012 = [f"2007_{number:06d}" for number in (27, 32, 33, 39, 42, 61, 63, 68)]
SETS = {"train": VOC_2012[:5], "val": VOC_2012[5:], "trainval": VOC_2012}


@card(
    samples={
        f"VOCdevkit/VOC2012/JPEGImages/{name}": f"{'train' if at < 5 else 'val'}: cat.json dog.json jpg json"
        for at, name in enumerate(VOC_2012)
    },
    holds={
        f"VOCdevkit/VOC2012/JPEGImages/{VOC_2012[5]}": (
            '"objects":[{"category":"cat","bbox":[1,2,2,3]',
            f'{{"column_1":"{VOC_2012[5]}","column_2":1}}',
            f'{{"column_1":"{VOC_2012[5]}","column_2":-1}}',
        )
    },
)
def pascal_voc_2012_with_lists_of_classes(folder: Path) -> None:
    root = "VOCdevkit/VOC2012"
    size = "<size><width>8</width><height>6</height></size>"
    box = "<object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>5</ymax></bndbox></object>"
    write(folder, [f"{root}/JPEGImages/{name}.jpg" for name in VOC_2012])
    for name in VOC_2012:
        xml = f"<annotation><filename>{name}.jpg</filename>{size}{box}</annotation>"
        write(folder, {f"{root}/Annotations/{name}.xml": xml})
    for split, names in SETS.items():
        write(folder, {f"{root}/ImageSets/Main/{split}.txt": "".join(f"{name}\n" for name in names)})
        for at, of_class in enumerate(("cat", "dog")):
            rows = "".join(f"{name} {1 if (VOC_2012.index(name) + at) % 2 else -1:2d}\n" for name in names)
            write(folder, {f"{root}/ImageSets/Main/{of_class}_{split}.txt": rows})


AIRCRAFT = {"train": range(4), "val": range(4, 6), "test": range(6, 9)}


@card(
    samples={
        f"data/images/{n:07d}": f"{split}: images_box.json images_family.json images_variant.json jpg"
        for split, numbers in AIRCRAFT.items()
        for n in numbers
    },
    holds={"data/images/0000008": ("Boeing 727", "737-8", "1 2 20 28")},
)
def fgvc_aircraft(folder: Path) -> None:
    write(folder, [f"data/images/{n:07d}.jpg" for n in range(9)])
    write(folder, {"data/images_box.txt": "".join(f"{n:07d} 1 2 20 2{n}\n" for n in range(9))})
    write(folder, {"data/families.txt": "Boeing 707\nBoeing 727\nBoeing 737\n"})
    for split, numbers in {**AIRCRAFT, "trainval": range(6)}.items():
        families = "".join(f"{n:07d} Boeing 7{n % 3}7\n" for n in numbers)
        variants = "".join(f"{n:07d} 737-{n}\n" for n in numbers)
        write(folder, {f"data/images_family_{split}.txt": families, f"data/images_variant_{split}.txt": variants})


@card(
    samples={f"images/p{n}": "jpg labels_alice.json labels_bob.json" for n in range(10)},
    holds={"images/p1": ('"label":"dog"', '"label":"cat"')},
)
def labels_of_two_annotators(folder: Path) -> None:
    write(folder, [f"images/p{n}.jpg" for n in range(10)])
    for at, name in enumerate(("alice", "bob")):
        rows = [[f"p{n}.jpg", ("cat", "dog")[(n + at) % 2]] for n in range(10)]
        write(folder, {f"labels_{name}.csv": tsv("file label", rows, ",")})


@card(
    samples={f"images/p{n}": "jpg txt" + (" todo.json" if n in {3, 4} else "") for n in range(10)},
    holds={"images/p3": ("a caption 3", "blurred? 3")},
)
def captions_with_a_list_of_doubts_and_a_copy(folder: Path) -> None:
    write(folder, [f"images/p{n}.jpg" for n in range(10)])
    captions = [[f"p{n}.jpg", f"a caption {n}"] for n in range(10)]
    write(folder, {"captions.csv": tsv("image caption", captions, ",")})
    write(folder, {"captions_copy.csv": tsv("image caption", captions[:5], ",")})
    write(folder, {"todo.csv": tsv("image caption", [[f"p{n}.jpg", f"blurred? {n}"] for n in (3, 4)], ",")})


SPLITS_OF_DTD = {"train": (0, 1), "val": (2, 3), "test": (4, 5)}


@card(error="labels/test2.txt and labels/train1.txt both name 4 files: which split parts are meant is unclear")
def describable_textures_with_alternative_splits(folder: Path) -> None:
    names = [[f"{texture}/{texture}_{n:04d}.jpg" for texture in ("banded", "dotted")] for n in range(6)]
    write(folder, [f"images/{name}" for of_number in names for name in of_number])
    for number in (1, 2):
        for split, numbers in SPLITS_OF_DTD.items():
            listed = [name for n in numbers for name in names[(n + 2 * (number - 1)) % 6]]
            write(folder, {f"labels/{split}{number}.txt": "".join(f"{name}\n" for name in listed)})
    rows = "".join(f"{name} {name.partition('/')[0]}\n" for of_number in names for name in of_number)
    write(folder, {"labels/labels_joint_anno.txt": rows})


@card(
    samples={
        f"images/{texture}/{texture}_{n:04d}": f"{split}: jpg json"
        for split, numbers in SPLITS_OF_DTD.items()
        for texture in ("banded", "dotted")
        for n in numbers
    },
    options={"split_lists": "*[!0-9]1.txt"},
)
def describable_textures_with_the_first_split(folder: Path) -> None:
    describable_textures_with_alternative_splits(folder)


WHOLE = "are split parts as a whole, and no samples"


@card(error=f"files such as train.de and test.de {WHOLE}")
def wmt_pairs_of_plain_text(folder: Path) -> None:
    for split, count in (("train", 6), ("dev", 2), ("test", 2)):
        for language in ("en", "de"):
            lines = "".join(f"{language} sentence {split} {n} .\n" for n in range(count))
            write(folder, {f"{split}.{language}": lines})


@card(error=f"files such as wikitext-2/wiki.train.tokens and .* {WHOLE}")
def wikitext_2(folder: Path) -> None:
    for split in ("train", "valid", "test"):
        write(folder, {f"wikitext-2/wiki.{split}.tokens": f" \n = {split} = \n \n <unk> is an actor . \n"})


UNKNOWN = "tell split parts in an unknown way, and chance would divide the samples"


@card(error=f"names such as clean_trainset_28spk_wav/.* and clean_testset_wav/.* {UNKNOWN}")
def voicebank_demand(folder: Path) -> None:
    for split, numbers in (("trainset_28spk", range(4)), ("testset", range(4, 6))):
        for n in numbers:
            write(folder, [f"{kind}_{split}_wav/p226_{n:03d}.wav" for kind in ("clean", "noisy")])
            write(folder, {f"{split}_txt/p226_{n:03d}.txt": f"Please call Stella {n}.\n"})


@card(error=f"names such as train_1.bmp and testA_1.bmp {UNKNOWN}")
def glas_2015(folder: Path) -> None:
    names = [f"{part}_{n}" for part, count in (("train", 4), ("testA", 2), ("testB", 2)) for n in range(1, count + 1)]
    write(folder, {f"{name}{kind}.bmp": picture("BMP") for name in names for kind in ("", "_anno")})
    write(folder, {"Grade.csv": tsv("name grade", [[name, "benign"] for name in names], ",")})


@card(error=f"names such as evaluation/4.wav and development/0.wav {UNKNOWN}")
def dcase_with_development_and_evaluation(folder: Path) -> None:
    for part, numbers in (("development", range(4)), ("evaluation", range(4, 7))):
        write(folder, [f"{part}/{n}.wav" for n in numbers])
        write(folder, {f"{part}.csv": tsv("filename text", [[f"{part}/{n}.wav", f"a dog {n}"] for n in numbers], ",")})


USAGES = ("Training", "PublicTest", "PrivateTest")


@card(samples={f"{n:09d}": f"{'train' if n < 8 else 'test'}: json" for n in range(12)})
def fer_2013(folder: Path) -> None:
    rows = [[f"{n % 7}", f"{n} 0 {n}", USAGES[0 if n < 8 else 1 + n % 2]] for n in range(12)]
    write(folder, {"fer2013.csv": tsv("emotion pixels Usage", rows, ",")})


@card(
    samples={
        f"data/{split}/anatomy_{split}/{n:09d}": f"{'test' if split == 'test' else 'val'}: json"
        for split, count in (("dev", 2), ("val", 3), ("test", 4))
        for n in range(count)
    },
    note="dev and val are both the split part val",
)
def mmlu(folder: Path) -> None:
    for split, count in (("dev", 2), ("val", 3), ("test", 4)):
        rows = "".join(f'"Find {split} {n}, now.",0,4,2,{n},{"ABCD"[n]}\n' for n in range(count))
        write(folder, {f"data/{split}/anatomy_{split}.csv": rows})
