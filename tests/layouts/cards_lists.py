"""Public data sets whose lists, or the names of whose folders, tell the split parts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.layouts.layout import card, write

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
