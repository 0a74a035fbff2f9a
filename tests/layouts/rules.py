"""For each rule by which references decide on a tree, the tree that goes wrong without the rule."""

from __future__ import annotations

import json
from pathlib import Path

from tests.layouts.answers import any_first
from tests.layouts.cards_mixed import UNCLEAR
from tests.layouts.cards_pictures import coco
from tests.layouts.cards_speech import lines, tsv
from tests.layouts.layout import card, contents_of, picture, tar_of, write

PHOTOS = [f"photos/IMG_{n:04d}" for n in range(20)]


def photos(folder: Path, count: int = 20) -> None:
    write(folder, [f"{name}.jpg" for name in PHOTOS[:count]])


PARTS = {"train": range(24), "dev": range(24, 27), "test": range(27, 30)}


@card(
    samples={
        f"clips/{n:02d}": f"{'val' if split == 'dev' else split}: mp3 txt"
        for split, numbers in PARTS.items()
        for n in numbers
    },
)
def rule_1_tables_with_the_same_columns_count_together(folder: Path) -> None:
    write(folder, [f"clips/{n:02d}.mp3" for n in range(30)])
    for split, numbers in PARTS.items():
        write(folder, {f"{split}.tsv": tsv("path sentence", [[f"{n:02d}.mp3", f"words {n}"] for n in numbers])})


@card(error=UNCLEAR)
def rule_1_numbers_do_not_name_a_small_folder(folder: Path) -> None:
    photos(folder)
    write(folder, ["plots/1.png", "plots/2.png"])
    write(folder, {"reviews.csv": tsv("stars review", [[1 + n % 2, f"a review {n}"] for n in range(15)], ",")})


@card(
    samples={f"{n}": "jpg json txt | jpg txt" for n in range(3, 13)},
    holds={"12": "a cat 12"},
)
def rule_2_the_id_names_more_files_than_a_running_number(folder: Path) -> None:
    write(folder, [f"pictures/{n}.jpg" for n in range(3, 13)])
    rows = [[at - 2, 15 - at, f"a cat {15 - at}"] for at in range(3, 13)]
    write(folder, {"data.csv": tsv("row id caption", rows, ",")})


@card(error=UNCLEAR)
def rule_2_a_running_number_that_beats_the_id_by_one(folder: Path) -> None:
    write(folder, [f"pictures/{n}.jpg" for n in range(1, 41)])
    rows = [[at, 42 - at, f"a cat {42 - at}"] for at in range(1, 41)]  # there is no picture 41
    write(folder, {"data.csv": tsv("number picture caption", rows, ",")})


@card(
    samples={f"pictures/{n}": "cls jpg json" for n in range(10)},
    holds={"pictures/9": '"width":0'},
)
def rule_2_labels_and_sizes_are_no_names(folder: Path) -> None:
    write(folder, [f"pictures/{n}.jpg" for n in range(10)])
    rows = [[n % 3, 9 - n, f"pictures/{n}.jpg"] for n in range(10)]
    write(folder, {"data.csv": tsv("label width file", rows, ",")})


@card(samples={f"scans/{n}": "mask.png scan.png | mask.png png" for n in range(8)})
def rule_2_a_picture_and_its_mask_are_parts_of_the_row(folder: Path) -> None:
    for n in range(8):
        write(folder, {f"scans/{n}.png": picture("PNG"), f"outlines/o{n}.png": picture("PNG", mode="L")})
    write(folder, {"data.csv": tsv("scan mask", [[f"scans/{n}.png", f"outlines/o{n}.png"] for n in range(8)], ",")})


@card(
    samples={
        **{
            f"pic_{n}": " | ".join(f"{s}jpg {p}" for s in ("train: ", "") for p in ("txt", "cls", "json"))
            for n in range(8)
        },
        **{f"? test/pic_{n} | pic_{n}": "test: jpg" for n in range(8, 12)},
    },
    holds={"pic_7": "beagle 7"},
)
def rule_3_an_empty_submission_is_not_trained(folder: Path) -> None:
    write(folder, [f"{'train' if n < 8 else 'test'}/pic_{n}.jpg" for n in range(12)])
    write(folder, {"train.csv": tsv("id breed", [[f"pic_{n}", f"beagle {n}"] for n in range(8)], ",")})
    write(folder, {"upload.csv": tsv("id breed", [[f"pic_{n}", "none"] for n in range(8, 12)], ",")})


@card(
    samples={
        f"pictures/{n}": f"{split}: jpg txt | {split}: jpg json | {split}: cls jpg"
        for split, numbers in (("train", range(6)), ("val", range(6, 9)))
        for n in numbers
    },
)
def rule_3_tables_of_one_label_keep_their_split(folder: Path) -> None:
    write(folder, [f"pictures/{n}.jpg" for n in range(9)])
    for split, numbers in (("train", range(6)), ("val", range(6, 9))):
        write(folder, {f"{split}.csv": tsv("file label", [[f"pictures/{n}.jpg", "cat"] for n in numbers], ",")})


@card(
    samples={f"images/{kind}/{n}": "jpg json labels.json" for n, kind in enumerate("abcabcab")},
    holds={"images/b/4": "grade-4"},
)
def rule_4_labels_join_by_the_ids_of_pictures(folder: Path) -> None:
    names = [f"{kind}/{n}.jpg" for n, kind in enumerate("abcabcab")]
    write(folder, [f"images/{name}" for name in names])
    write(folder, {"images.txt": "".join(f"{n + 101} {name}\n" for n, name in enumerate(names))})
    write(folder, {"labels.txt": "".join(f"{n + 101} grade-{n}\n" for n in range(8))})


@card(samples=dict.fromkeys(PHOTOS, "jpg txt"), holds={PHOTOS[13]: "a cat 13"})
def rule_5_captions_next_to_a_list_of_the_same_pictures(folder: Path) -> None:
    photos(folder)
    write(folder, {"all.txt": "".join(f"{name}.jpg\n" for name in PHOTOS)})
    rows = [[f"{name}.jpg", f"a cat {n}"] for n, name in enumerate(PHOTOS)]
    write(folder, {"captions.csv": tsv("image caption", rows, ",")})


@card(
    samples=dict.fromkeys(PHOTOS, "jpg sizes.json txt | captions.json jpg json"),
    holds={PHOTOS[13]: ("a cat 13", "1013")},
)
def rule_5_another_table_of_the_same_pictures_joins(folder: Path) -> None:
    photos(folder)
    captions = [[f"{name}.jpg", f"a cat {n}"] for n, name in enumerate(PHOTOS)]
    sizes = [[f"{name}.jpg", 1000 + n, 2000 - n] for n, name in enumerate(PHOTOS)]
    write(folder, {"captions.csv": tsv("image caption", captions, ",")})
    write(folder, {"sizes.csv": tsv("image width height", sizes, ",")})


@card(
    samples={f"images/{n:03d}": "jpg json png txt | jpg json masks.png txt" for n in range(6)},
    texts={"images/004.txt": "a note 4"},
)
def rule_6_rows_take_along_files_of_the_same_name(folder: Path) -> None:
    for n in range(6):
        size, name = (8 + n, 6), f"{n:03d}"
        write(folder, {f"images/{name}.jpg": picture("JPEG", size), f"masks/{name}.png": picture("PNG", size, "L")})
        write(folder, {f"images/{name}.txt": f"a note {n}"})
    write(folder, {"scores.csv": tsv("file score", [[f"images/{n:03d}.jpg", 0.5 + n] for n in range(6)], ",")})


@card(
    samples={f"wav/{name}/{n:03d}": "speakers.json wav" for name in ("anna", "berta", "carl") for n in range(3)},
    holds={"wav/carl/002": "1943"},
)
def rule_7_a_table_of_speakers_joins_by_folders(folder: Path) -> None:
    write(folder, [f"wav/{name}/{n:03d}.wav" for name in ("anna", "berta", "carl") for n in range(3)])
    rows = [["anna", 1941, "Rome"], ["berta", 1942, "Oslo"], ["carl", 1943, "Bern"]]
    write(folder, {"speakers.csv": tsv("speaker born town", rows, ",")})


@card(samples=dict.fromkeys(("crop/1", "crop/2", "crop/3", "forest/4", "forest/5", "forest/6"), "cls jpg json"))
def rule_7_keys_of_an_object_name_no_folders(folder: Path) -> None:
    write(folder, [f"{'crop' if n < 4 else 'forest'}/{n}.jpg" for n in range(1, 7)])
    write(folder, {"label_map.json": json.dumps({"crop": 0, "forest": 1})})


@card(error=UNCLEAR)
def rule_8_a_table_that_names_a_tenth_of_the_files_is_not_taken(folder: Path) -> None:
    write(folder, [f"pictures/{n:03d}.jpg" for n in range(100)])
    rows = [[f"pictures/{n:03d}.jpg", f"a cat {n}"] for n in range(0, 100, 10)]
    write(folder, {"some.csv": tsv("image caption", rows, ",")})


@card(samples={f"{n:09d}": "json" for n in range(20)}, sample_type="CrudeSample")
def rule_9_a_list_of_objects_is_data(folder: Path) -> None:
    rows = [{"instruction": f"Add {n} and 1.", "input": "", "output": f"{n + 1}"} for n in range(20)]
    write(folder, {"tasks.json": json.dumps(rows, indent=2), "LICENSE": "MIT", "README.md": "# Tasks"})
    write(folder, ["figure.png"])


@card(samples={f"licence_{name}": "txt" for name in ("mit", "bsd", "gpl", "mpl", "isc")}, sample_type="TextSample")
def rule_9_texts_are_not_about_the_data_by_their_names(folder: Path) -> None:
    write(folder, {f"licence_{name}.txt": f"The text of {name}" for name in ("mit", "bsd", "gpl", "mpl", "isc")})


@card(samples={f"{n:09d}": "txt | json txt" for n in range(30)}, sample_type="TextSample")
def rule_9_a_few_pictures_next_to_rows_are_about_them(folder: Path) -> None:
    write(folder, {"reviews.csv": tsv("text", [[f"a review {n}"] for n in range(30)], ",")})
    write(folder, ["histogram.png", "plots/length.png"])


@card(error=UNCLEAR)
def rule_9_tables_with_different_columns_ask(folder: Path) -> None:
    write(folder, {"reviews.csv": tsv("text stars", [[f"a review {n}", n % 5] for n in range(30)], ",")})
    write(folder, {"shops.csv": tsv("name town", [[f"shop {n}", f"town {n}"] for n in range(30)], ",")})


def tiles(folder: Path, masks: int) -> None:
    for n in range(8):
        write(folder, {f"tiles/t{n}.tif": picture("TIFF", (8 + n, 6))})
        if n < masks:
            write(folder, {f"outlines/t{n}.tif": picture("TIFF", (8 + n, 6), "L")})


@card(
    samples={f"t{n}": "outlines.tif tif | outlines.tif tiles.tif" if n < 7 else "tif | tiles.tif" for n in range(8)},
)
def rule_10_one_missing_mask_makes_no_classes(folder: Path) -> None:
    tiles(folder, masks=7)


@card(samples={f"{kind}/{n}": "cls jpg json" for kind in ("xray", "photo") for n in range(6)})
def rule_10_equal_names_of_other_sizes_are_not_joined(folder: Path) -> None:
    for n in range(6):
        write(folder, {f"xray/{n}.jpg": picture("JPEG", (8 + n, 6)), f"photo/{n}.jpg": picture("JPEG", (9, 7 + n))})


@card(samples={f"s{n}": "in.png out.png" for n in range(1, 6)})
def rule_11_numbered_folders_are_samples(folder: Path) -> None:
    for n in range(1, 6):
        write(folder, {f"s{n}/{name}.png": picture("PNG", (8 + n, 6)) for name in ("in", "out")})


@card(samples={f"p{n}": "ct.png pet.png" for n in range(1, 6)})
def rule_11_folders_of_kinds_have_the_parts_of_samples(folder: Path) -> None:
    for n in range(1, 6):
        write(folder, {f"{name}/p{n}.png": picture("PNG", (8 + n, 6)) for name in ("ct", "pet")})


@card(samples={f"{n:03d}": "masks.png png" for n in range(5)})
def rule_12_names_of_parts_decide_where_sizes_do_not(folder: Path) -> None:
    write(folder, [f"{name}/{n:03d}.png" for name in ("images", "masks") for n in range(5)])


@card(error=UNCLEAR)
def rule_12_equal_names_of_one_size_ask(folder: Path) -> None:
    write(folder, [f"{name}/{n:03d}.png" for name in ("north", "south") for n in range(5)])


@card(
    samples={
        **{f"train/{n}": "train: jpg txt" for n in range(6)},
        **{f"val/{n}": "val: jpg" for n in range(3)},
    },
)
def rule_13_a_table_in_a_split_folder_speaks_for_it(folder: Path) -> None:
    write(folder, [f"train/{n}.jpg" for n in range(6)] + [f"val/{n}.jpg" for n in range(3)])
    write(folder, {"train/metadata.csv": tsv("file_name text", [[f"{n}.jpg", f"a cat {n}"] for n in range(6)], ",")})


@card(samples={f"{n}{k}": "jpg txt" for n in range(2) for k in range(4)}, forms=("folder", "zip"))
def rule_14_tables_named_after_tars_do_not_decide(folder: Path) -> None:
    for n in range(2):
        members = {f"{n}{k}.{end}": picture() if end == "jpg" else b"a cat" for k in range(4) for end in ("jpg", "txt")}
        write(folder, {f"{n:05d}.tar": tar_of(members)})
        rows = [[f"https://x.org/{k}.jpg", "success", 8] for k in range(4)]
        write(folder, {f"{n:05d}.csv": tsv("url status width", rows, ",")})


@card(
    samples={f"{n}{k}": "txt wav" for n in range(2) for k in range(4)},
    forms=("folder", "zip"),
    holds={"13": "words of 13"},
)
def rule_14_a_manifest_named_after_its_tar_is_searched(folder: Path) -> None:
    for n in range(2):
        names = [f"{n}{k}" for k in range(4)]
        write(folder, {f"audio_{n}.tar": tar_of({f"{name}.wav": contents_of("x.wav") for name in names})})
        rows = [{"audio_filepath": f"{name}.wav", "text": f"words of {name}"} for name in names]
        write(folder, {f"audio_{n}.json": lines(rows)})


@card(
    samples={**{f"c{n}": "jpg json" for n in range(5)}, **{f"c{n}": "json" for n in range(5, 8)}},
    sample_type="ConversationSample",
)
def rule_15_chats_without_a_picture_stay(folder: Path) -> None:
    write(folder, [f"pictures/{n}.jpg" for n in range(5)])
    chats = [
        {
            "id": f"c{n}",
            **({"image": f"pictures/{n}.jpg"} if n < 5 else {}),
            "conversations": [
                {"from": "human", "value": "<image>?" if n < 5 else "Hi"},
                {"from": "gpt", "value": "A bus."},
            ],
        }
        for n in range(8)
    ]
    write(folder, {"chats.json": json.dumps(chats)})


@card(samples=dict.fromkeys(PHOTOS, "jpg txt"), left_out={"rows F102": 1, "parts F102": 2})
def rule_15_rows_of_tables_that_name_no_file_fail(folder: Path) -> None:
    photos(folder)
    rows = [[f"{name}.jpg", f"a cat {n}"] for n, name in enumerate([*PHOTOS, "photos/gone"])]
    write(folder, {"captions.csv": tsv("image caption", rows, ",")})


@card(
    samples={f"clips/{n:02d}": f"{'train' if n < 14 else 'val' if n < 17 else '-'}: json mp3 txt" for n in range(20)},
)
def rule_16_rejected_clips_are_in_no_split_part(folder: Path) -> None:
    write(folder, [f"clips/{n:02d}.mp3" for n in range(20)])
    tables = {"train": range(14), "dev": range(14, 17), "validated": range(17), "invalidated": range(17, 20)}
    for name, numbers in tables.items():
        rows = [[f"{n:02d}.mp3", f"words {n}", n % 3] for n in numbers]
        write(folder, {f"{name}.tsv": tsv("path sentence votes", rows)})


@card(
    samples={f"pictures/{n}": any_first("instances", "person_keypoints", parts="jpg") for n in range(6)},
    holds={"pictures/2": ('"iscrowd"', '"num_keypoints"')},
)
def rule_16_documents_of_the_same_pictures_join(folder: Path) -> None:
    write(folder, [f"pictures/{n}.jpg" for n in range(6)])
    for kind in ("instances", "person_keypoints"):
        write(folder, {f"annotations/{kind}.json": coco([f"{n}.jpg" for n in range(6)], kind)})


@card(
    samples={f"pictures/{n}": f"{'train' if n < 6 else 'val'}: jpg" for n in range(9)},
    left_out={},
)
def lists_of_split_parts_are_used(folder: Path) -> None:
    write(folder, [f"pictures/{n}.jpg" for n in range(9)])
    for split, numbers in (("train", range(6)), ("val", range(6, 9))):
        write(folder, {f"{split}_list.txt": "".join(f"pictures/{n}.jpg\n" for n in numbers)})


@card(error="files such as train.txt and .*.txt are split parts as a whole, and no samples")
def files_that_are_split_parts_as_a_whole_are_no_samples(folder: Path) -> None:
    for split in ("train", "valid", "test"):
        write(folder, {f"{split}.txt": f"-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\n{split} VBZ B-VP O\n"})


SHAPES = [f"{category}/{category}a{n}" for category in ("02691156", "03001627") for n in range(4)]


@card(
    samples={name: f"{('train', 'train', 'val', 'test')[at % 4]}: png pts seg" for at, name in enumerate(SHAPES)},
)
def lists_in_a_folder_that_names_train_and_test(folder: Path) -> None:
    for category, _, name in (shape.partition("/") for shape in SHAPES):
        write(folder, {f"{category}/points/{name}.pts": "0 0 0\n", f"{category}/points_label/{name}.seg": "1\n"})
        write(folder, [f"{category}/seg_img/{name}.png"])
    for split, places in (("train", (0, 1, 4, 5)), ("val", (2, 6)), ("test", (3, 7))):
        listed = [f"shape_data/{SHAPES[at]}" for at in places]
        write(folder, {f"train_test_split/shuffled_{split}_file_list.json": json.dumps(listed)})
