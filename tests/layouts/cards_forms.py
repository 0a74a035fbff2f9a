"""Public data sets whose lists and folders have forms of their own, as their cards describe the files."""

from __future__ import annotations

import json
from pathlib import Path

from tests.layouts.cards_speech import VOICE, tsv, voice_row
from tests.layouts.layout import card, write

WNIDS = {"n01443537": "goldfish", "n01629819": "salamander"}


@card(
    samples={
        **{
            f"train/{wnid}/images/{wnid}_{n}": "train: boxes.json cls jpeg json words.json"
            for wnid in WNIDS
            for n in range(5)
        },
        **{f"val/images/val_{n}": "val: annotations.json cls jpeg json" for n in range(6)},
        **{f"test/images/test_{n}": "test: jpeg" for n in range(6)},
    },
    texts={"train/n01629819/images/n01629819_2.cls": "1", "val/images/val_3.cls": "1", "val/images/val_4.cls": "0"},
    holds={"train/n01629819/images/n01629819_2": "salamander"},
    sample_type="ImageClassificationSample",
)
def tiny_imagenet(folder: Path) -> None:
    for wnid in WNIDS:
        names = [f"{wnid}_{n}.JPEG" for n in range(5)]
        write(folder, [f"train/{wnid}/images/{name}" for name in names])
        boxes = "".join(f"{name}\t{n}\t1\t5\t4\n" for n, name in enumerate(names))
        write(folder, {f"train/{wnid}/{wnid}_boxes.txt": boxes})
    rows = [(f"val_{n}.JPEG", [*WNIDS][n % 2], n, 1, 5, 4) for n in range(6)]
    write(folder, [f"val/images/{row[0]}" for row in rows])
    write(folder, {"val/val_annotations.txt": "".join("\t".join(map(str, row)) + "\n" for row in rows)})
    write(folder, [f"test/images/test_{n}.JPEG" for n in range(6)])
    words = {**WNIDS, **{f"n{n:08d}": f"thing {n}, other {n}" for n in range(10)}}
    write(folder, {"wnids.txt": "".join(f"{wnid}\n" for wnid in WNIDS)})
    write(folder, {"words.txt": "".join(f"{wnid}\t{name}\n" for wnid, name in words.items())})


BREEDS = ("n02085620-Chihuahua", "n02085782-Japanese_spaniel")
VOC = """<annotation>
	<folder>02085620</folder>
	<filename>{name}</filename>
	<source><database>ImageNet database</database></source>
	<size><width>8</width><height>6</height><depth>3</depth></size>
	<segment>0</segment>
	<object>
		<name>{breed}</name>
		<pose>Unspecified</pose><truncated>0</truncated><difficult>0</difficult>
		<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>5</xmax><ymax>4</ymax></bndbox>
	</object>
</annotation>
"""


@card(error="without an extension have the names of others, such as Annotation/.*Chihuahua/n02085620_0")
def stanford_dogs(folder: Path) -> None:
    for breed in BREEDS:
        for n in range(5):
            name = f"{breed[:9]}_{n}"
            write(folder, [f"Images/{breed}/{name}.jpg"])
            write(folder, {f"Annotation/{breed}/{name}": VOC.format(name=name, breed=breed[10:])})


@card(
    samples={
        f"Images/{breed}/{breed[:9]}_{n} | {breed}/{breed[:9]}_{n}": "jpg json" for breed in BREEDS for n in range(5)
    }
)
def stanford_dogs_with_the_extension_that_is_proposed(folder: Path) -> None:
    stanford_dogs(folder)
    for path in [path for path in folder.rglob("Annotation/*/*") if path.is_file()]:
        path.rename(f"{path}.xml")


@card(error="two levels of folders, such as animals/cats: which are classes is unclear")
def classes_of_two_levels(folder: Path) -> None:
    for above, names in {"animals": ("cats", "dogs"), "plants": ("roses", "tulips")}.items():
        write(folder, [f"{above}/{name}/{name}{n}.jpg" for name in names for n in range(4)])


@card(error="validated.tsv, other.tsv and invalidated.tsv name different files and no split part")
def common_voice_without_split_parts(folder: Path) -> None:
    clips = [f"common_voice_en_{1000 + n}" for n in range(30)]
    write(folder, [f"clips/{name}.mp3" for name in clips])
    for table, names in {"validated": clips[:20], "invalidated": clips[20:25], "other": clips[25:]}.items():
        write(folder, {f"{table}.tsv": tsv(VOICE, map(voice_row, names))})


@card(samples={f"{n}": "jpg json" for n in range(20)}, sample_type="ConversationSample")
def llava_with_a_small_list(folder: Path) -> None:
    write(folder, [f"images/{n:04d}.jpg" for n in range(20)])
    rows = [
        {
            "id": f"{n}",
            "image": f"{n:04d}.jpg",
            "conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": f"Thing {n}."}],
        }
        for n in range(20)
    ]
    write(folder, {"train.json": json.dumps(rows), "train_small.json": json.dumps(rows[:4])})


@card(samples={f"images/{n:04d}": "jpg txt" for n in range(20)})
def captions_with_a_small_list(folder: Path) -> None:
    write(folder, [f"images/{n:04d}.jpg" for n in range(20)])
    rows = [{"image": f"images/{n:04d}.jpg", "caption": f"A picture of thing {n}."} for n in range(20)]
    write(folder, {"train.json": json.dumps(rows), "train_small.json": json.dumps(rows[:4])})


@card(
    samples={
        f"{part}/wav/{part.upper()}_{n:04d}": "txt wav"
        for part, count in (("basic5000", 8), ("travel1000", 4))
        for n in range(1, count + 1)
    },
    texts={"basic5000/wav/BASIC5000_0003.txt": "水をマレーシアから買わなくては、BASIC5000_0003。"},
)
def jsut(folder: Path) -> None:
    for part, count in (("basic5000", 8), ("travel1000", 4)):
        names = [f"{part.upper()}_{n:04d}" for n in range(1, count + 1)]
        write(folder, [f"{part}/wav/{name}.wav" for name in names])
        text = "".join(f"{name}:水をマレーシアから買わなくては、{name}。\n" for name in names)
        write(folder, {f"{part}/transcript_utf8.txt": text})
