"""Trees in which several kinds of files meet: some join in one way only, others leave a choice."""

from __future__ import annotations

import json
from pathlib import Path

from tests.layouts.cards_speech import lines, tsv
from tests.layouts.layout import card, contents_of, picture, table, tar_of, write

COUNTS = {"train": 6, "test": 3}
UNCLEAR = "several kinds of data|unclear|imported one by one"


@card(samples={f"images/{n:03d}": "jpg txt | jpg json txt" for n in range(6)}, sample_type="CaptioningSample")
def a_table_that_names_each_picture_twice(folder: Path) -> None:
    write(folder, [f"images/{n:03d}.jpg" for n in range(6)])
    rows = [[f"images/{n:03d}.jpg", f"{n:03d}.jpg", f"a cat {n}"] for n in range(6)]
    write(folder, {"captions.csv": tsv("image_path file_name caption", rows, ",")})


@card(samples={f"images/{n:03d}": "jpg json" for n in range(6)}, holds={"4": '"id":"ck4"'})
def an_object_that_names_a_picture_by_its_name_and_a_url(folder: Path) -> None:
    write(folder, [f"images/{n:03d}.jpg" for n in range(6)])
    names = [(n, f"{n:03d}.jpg") for n in range(6)]
    rows = [{"row": {"id": f"ck{n}", "name": name, "data": f"https://x.org/a/{name}"}, "by": "me"} for n, name in names]
    write(folder, {"export.ndjson": lines(rows)})


@card(samples={f"images/{n:03d}": "jpg json txt" for n in range(6)}, sample_type="CaptioningSample")
def a_running_number_next_to_names(folder: Path) -> None:
    write(folder, [f"images/{n:03d}.jpg" for n in range(6)])
    rows = [[5 - n, f"{n:03d}.jpg", f"a cat {n}"] for n in range(6)]
    write(folder, {"captions.csv": tsv("row image caption", rows, ",")})


@card(
    samples={f"{n}": "image.png mask.png txt | mask.png png txt" for n in range(6)},
    holds={"4": "a cell 4"},
)
def a_table_of_pictures_and_masks(folder: Path) -> None:
    for n in range(6):
        write(
            folder,
            {f"images/{n:02d}.png": picture("PNG", (8 + n, 6)), f"masks/m{n:02d}.png": picture("PNG", (8 + n, 6), "L")},
        )
    rows = [[n, f"images/{n:02d}.png", f"masks/m{n:02d}.png", f"a cell {n}"] for n in range(6)]
    write(folder, {"data.csv": tsv("id image mask caption", rows, ",")})


@card(
    samples={f"audio/{n:04d}": "json mp3 txt" for n in range(6)},
    holds={"audio/0003": ("words 3", "0.93")},
    forms=("folder",),
)
def names_of_another_machine(folder: Path) -> None:
    write(folder, [f"audio/{n:04d}.mp3" for n in range(6)])
    rows = [
        {"file": f"C:\\corpus\\audio\\{n:04d}.mp3", "transcript": f"words {n}", "score": f"0.9{n}"} for n in range(6)
    ]
    write(folder, {"meta/all.jsonl": lines(rows)})


@card(
    samples={f"{n:05d}{k:04d}": "jpg json txt" for n in range(2) for k in range(3)},
    forms=("folder",),
    sample_type="CaptioningSample",
)
def tars_of_img2dataset(folder: Path) -> None:
    for n in range(2):
        members: dict[str, bytes] = {}
        for k in range(3):
            key = f"{n:05d}{k:04d}"
            members |= {f"{key}.jpg": picture(), f"{key}.txt": b"a cat", f"{key}.json": b'{"url": "https://x.org"}'}
        write(
            folder, {f"{n:05d}.tar": tar_of(members), f"{n:05d}_stats.json": json.dumps({"count": 3, "successes": 3})}
        )
        columns: dict[str, list[object]] = {"url": ["https://x.org"] * 3, "key": [f"{n:05d}{k:04d}" for k in range(3)]}
        write(folder, {f"{n:05d}.parquet": table(columns)})


@card(
    samples={f"{n:03d}": "flac json txt" for n in range(6)},
    forms=("folder",),
    holds={"004": "words 4"},
)
def a_table_next_to_a_tar_whose_members_it_names(folder: Path) -> None:
    write(folder, {"audio.tar": tar_of({f"{n:03d}.flac": contents_of("x.flac") for n in range(6)})})
    rows = [[f"{n:03d}.flac", f"words {n}", 1.5 + n] for n in range(6)]
    write(folder, {"metadata.csv": tsv("file_name text seconds", rows, ",")})


@card(
    samples={
        **{f"train/{kind}/{n}": "train: jpg json txt" for kind in ("cats", "dogs") for n in range(3)},
        **{f"test/{kind}/{n}": "test: jpg json txt" for kind in ("cats", "dogs") for n in range(2)},
    },
    holds={"test/dogs/1": "dogs 1 of test"},
)
def a_table_of_each_split_next_to_classes(folder: Path) -> None:
    for split, count in (("train", 3), ("test", 2)):
        names = [f"{kind}/{n}" for kind in ("cats", "dogs") for n in range(count)]
        write(folder, [f"{split}/{name}.jpg" for name in names])
        rows = [[f"{name}.jpg", f"{name.replace('/', ' ')} of {split}", at] for at, name in enumerate(names)]
        write(folder, {f"{split}/metadata.csv": tsv("file_name text score", rows, ",")})


@card(
    samples={f"pictures/{n}": "jpg json speakers.json" for n in "abcdef"},
    holds={"pictures/c": ("Ada", "c looks left")},
)
def rows_that_join_by_a_key(folder: Path) -> None:
    write(folder, [f"pictures/{n}.jpg" for n in "abcdef"])
    rows = [[f"{n}.jpg", f"p{at // 2}", f"{n} looks left", at] for at, n in enumerate("abcdef")]
    write(folder, {"pictures.csv": tsv("file person pose frame", rows, ",")})
    write(
        folder,
        {"speakers.csv": tsv("person name born", [["p0", "Bob", 1980], ["p1", "Ada", 1990], ["p2", "Eve", 2000]], ",")},
    )


@card(
    samples={f"speech/{name}/{n:02d}": "persons.json wav" for name in ("f01", "f02", "m03") for n in range(4)},
    holds={"speech/m03/02": '"age":43'},
)
def persons_by_their_folders(folder: Path) -> None:
    write(folder, [f"speech/{name}/{n:02d}.wav" for name in ("f01", "f02", "m03") for n in range(4)])
    rows = [["f01", 41, "en"], ["f02", 42, "de"], ["m03", 43, "fr"]]
    write(folder, {"persons.csv": tsv("person age language", rows, ",")})


# What leaves a choice.


@card(error=UNCLEAR)
def pictures_and_a_table_of_other_things(folder: Path) -> None:
    write(folder, [f"photos/IMG_{n:04d}.jpg" for n in range(12)])
    write(folder, {"prices.csv": tsv("product price", [[f"thing {n}", 9.5 + n] for n in range(40)], ",")})


@card(error=UNCLEAR)
def pictures_and_chats_that_do_not_name_them(folder: Path) -> None:
    write(folder, [f"photos/IMG_{n:04d}.jpg" for n in range(12)])
    chats = [
        {"messages": [{"role": "user", "content": f"Hi {n}"}, {"role": "assistant", "content": "Hello"}]}
        for n in range(30)
    ]
    write(folder, {"chats.jsonl": lines(chats)})


@card(error=UNCLEAR)
def equal_names_in_folders_of_unknown_meaning(folder: Path) -> None:
    for n in range(6):
        write(folder, {f"{name}/{n:03d}.jpg": picture("JPEG", (8, 6)) for name in ("xray", "photo")})


@card(error=UNCLEAR)
def two_columns_that_name_different_pictures(folder: Path) -> None:
    write(folder, [f"{n:03d}.jpg" for n in range(12)])
    rows = [[f"{n:03d}.jpg", f"{(n + 5) % 12:03d}.jpg", f"a cat {n}"] for n in range(12)]
    write(folder, {"pairs.csv": tsv("picture other caption", rows, ",")})


@card(error=UNCLEAR)
def rows_and_pictures_of_parquet_and_folders(folder: Path) -> None:
    write(folder, [f"photos/IMG_{n:04d}.jpg" for n in range(12)])
    columns: dict[str, list[object]] = {"image": [picture()] * 8, "text": [f"a cat {n}" for n in range(8)]}
    write(folder, {"data/train-00000-of-00001.parquet": table(columns)})


@card(error=UNCLEAR)
def a_table_that_names_few_of_the_pictures(folder: Path) -> None:
    write(folder, [f"photos/IMG_{n:04d}.jpg" for n in range(40)])
    rows = [[f"photos/IMG_{n:04d}.jpg", f"a cat {n}"] for n in range(4)]
    write(folder, {"captions.csv": tsv("image caption", rows, ",")})


# Formats of records that have readers of their own: they are named, or the import asks.

ALONE = r"(?s)^(?!.*energon import).*"  # without a command that imports half of them


@card(error=ALONE + "LeRobot dataset of version 3")
def lerobot_v3(folder: Path) -> None:
    info = {
        "codebase_version": "v3.0",
        "fps": 30,
        "total_episodes": 2,
        "data_path": "data/chunk-{chunk_index:03d}/file-0.parquet",
    }
    write(folder, {"meta/info.json": json.dumps(info), "meta/stats.json": json.dumps({"action": {"mean": [0.5]}})})
    write(folder, {"meta/tasks.parquet": table({"task_index": [0], "task": ["pick"]})})
    episodes: dict[str, list[object]] = {"episode_index": [0, 1], "length": [3, 3], "dataset_from_index": [0, 3]}
    write(folder, {"meta/episodes/chunk-000/file-000.parquet": table(episodes)})
    steps: dict[str, list[object]] = {
        "action": [[0.5] * 7] * 6,
        "observation.state": [[0.1] * 7] * 6,
        "episode_index": [0, 0, 0, 1, 1, 1],
    }
    write(folder, {"data/chunk-000/file-000.parquet": table(steps)})
    write(folder, ["videos/observation.images.front/chunk-000/file-000.mp4", "README.md"])


@card(error=ALONE + "TensorFlow Datasets")
def rlds(folder: Path) -> None:
    root = "bridge/1.0.0"
    write(folder, {f"{root}/bridge-train.tfrecord-{n:05d}-of-00003": b"\x08" + bytes(30) for n in range(3)})
    write(folder, {f"{root}/dataset_info.json": json.dumps({"name": "bridge", "fileFormat": "tfrecord"})})
    write(
        folder,
        {f"{root}/features.json": json.dumps({"pythonClassName": "tensorflow_datasets.core.features.FeaturesDict"})},
    )


@card(
    samples={
        f"cut{shard}{n}": " | ".join(f"flac json {cut}" for cut in ("cuts.json", "2.json", "columns.json"))
        for shard in range(2)
        for n in range(4)
    },
    holds={"cut13": ("words 3", "MonoCut")},
)
def lhotse_shar(folder: Path) -> None:
    for shard in range(2):
        cuts = [
            {
                "id": f"cut{shard}{n}",
                "start": 0,
                "duration": 1.5,
                "channel": 0,
                "type": "MonoCut",
                "supervisions": [{"text": f"words {n}"}],
            }
            for n in range(4)
        ]
        write(folder, {f"cuts.{shard:06d}.jsonl": lines(cuts)})
        members = {f"cut{shard}{n}.{end}": contents_of(f"x.{end}") for n in range(4) for end in ("flac", "json")}
        write(folder, {f"recording.{shard:06d}.tar": tar_of(members)})


@card(error=ALONE + "Lhotse Shar")
def lhotse_shar_of_several_fields(folder: Path) -> None:
    lhotse_shar(folder)
    for shard in range(2):
        members = {f"cut{shard}{n}.{end}": contents_of(f"x.{end}") for n in range(4) for end in ("npy", "json")}
        write(folder, {f"features.{shard:06d}.tar": tar_of(members)})


@card(error=ALONE + "MCAP")
def mcap(folder: Path) -> None:
    magic = b"\x89MCAP0\r\n"
    write(folder, {f"drive_{n}/drive_{n}.mcap": magic + bytes(30) + magic for n in range(3)})
    write(folder, {f"drive_{n}/metadata.yaml": "rosbag2_bagfile_information:\n  version: 5\n" for n in range(3)})


@card(
    samples={
        f"{part}{n:02d}": f"{'val' if part == 'validation' else 'train'}: cls jpg"
        for part in ("train", "validation")
        for n in range(6)
    },
    forms=("folder", "zip"),
)
def tars_named_after_split_parts(folder: Path) -> None:
    for part, shards in (("train", 3), ("validation", 1)):
        for shard in range(shards):
            numbers = range(6 * shard // shards, 6 * (shard + 1) // shards)
            members = {f"{part}{n:02d}.{name}": contents_of(f"x.{name}") for n in numbers for name in ("cls", "jpg")}
            write(folder, {f"images-{part}-{shard:04d}.tar": tar_of(members)})


@card(samples={"a": "train: jpg txt", "b": "train: jpg txt", "c": "val: jpg txt"}, forms=("folder", "zip"))
def tars_in_folders_of_split_parts(folder: Path) -> None:
    for part, keys in (("train", "ab"), ("val", "c")):
        members = {f"{key}.{name}": contents_of(f"x.{name}") for key in keys for name in ("jpg", "txt")}
        write(folder, {f"{part}/00000.tar": tar_of(members)})


@card(error="LeRobot dataset of version 2")
def lerobot_v2(folder: Path) -> None:
    write(folder, {"meta/info.json": json.dumps({"codebase_version": "v2.1", "fps": 30, "total_episodes": 2})})
    write(folder, {"meta/episodes.jsonl": lines([{"episode_index": n, "length": 3} for n in range(2)])})
    for n in range(2):
        steps = table({"action": [[0.1, 0.2]] * 3, "frame_index": [0, 1, 2], "episode_index": [n] * 3})
        name = f"chunk-000/episode_{n:06d}"
        write(folder, {f"data/{name}.parquet": steps, f"videos/top/{name}.mp4": contents_of("x.mp4")})


@card(error="extensions.*t10k-images-idx3-ubyte", forms=("folder",))
def mnist_of_idx_files(folder: Path) -> None:
    for name, magic in (("images-idx3", b"\0\0\x08\x03"), ("labels-idx1", b"\0\0\x08\x01")):
        write(folder, {f"{part}-{name}-ubyte": magic + bytes(900) for part in ("train", "t10k")})


@card(error="files without an extension: 4", forms=("folder",))
def cifar_of_python_files(folder: Path) -> None:
    names = [*(f"data_batch_{n}" for n in range(1, 4)), "test_batch"]
    write(folder, {f"cifar-10-batches-py/{name}": b"\x80\x04" + bytes(100) for name in names})
    write(folder, {"cifar-10-batches-py/batches.meta": b"\x80\x04."})


@card(
    samples={
        **{f"{n}": "train: cls png txt" for n in range(24)},
        **{f"{n}": "val: cls png txt" for n in range(24, 32)},
        **{f"{n}": "test: png txt" for n in range(32, 40)},
    },
)
def hateful_memes_without_labels_of_the_test_part(folder: Path) -> None:
    write(folder, [f"img/{n:02d}.png" for n in range(40)])
    for part, numbers in {"train": range(24), "dev": range(24, 32), "test": range(32, 40)}.items():
        labels = [{} if part == "test" else {"label": n % 2} for n in numbers]
        rows = [{"id": n, "img": f"img/{n:02d}.png", **labels[n - numbers[0]], "text": f"words {n}"} for n in numbers]
        write(folder, {f"{part}.jsonl": lines(rows)})


@card(
    samples={f"cars_{part}/{n:05d}": f"{part}: cls jpg json" for part, count in COUNTS.items() for n in range(count)},
)
def stanford_cars_as_tables(folder: Path) -> None:
    for part, count in COUNTS.items():
        write(folder, [f"cars_{part}/{n:05d}.jpg" for n in range(count)])
        rows = [[f"{n:05d}.jpg", n, n + 9, n % 3] for n in range(count)]
        write(folder, {f"cars_{part}_annos.csv": tsv("fname bbox_x1 bbox_x2 class", rows, ",")})


@card(error=UNCLEAR, forms=("folder",))
def numbered_photographs_next_to_a_table_of_prices(folder: Path) -> None:
    write(folder, [f"photo_{n}.jpg" for n in range(3)])
    write(folder, {"prices.csv": tsv("product price", [[f"p{n}x", n] for n in range(20)], ",")})


@card(
    samples={**{f"{kind}/{kind}{n}": "cls jpg json" for kind in ("cat", "dog") for n in range(9)}, "cover": "jpg"},
    sample_type="ImageClassificationSample",
)
def class_folders_with_a_picture_next_to_these(folder: Path) -> None:
    write(folder, [f"{kind}/{kind}{n}.jpg" for kind in ("cat", "dog") for n in range(9)])
    write(folder, ["cover.jpg"])


@card(
    samples={
        f"{part}/waves/{speaker}/{speaker}_{n}": f"{part}: genders.json txt wav"
        for part, speakers in (("train", ("S01", "S02")), ("test", ("D01",)))
        for speaker in speakers
        for n in range(3)
    },
    holds={"test/waves/D01/D01_1": ("words 1 of D01", '"f"')},
)
def vivos_with_a_single_speaker_in_test(folder: Path) -> None:
    for part, speakers in (("train", ("S01", "S02")), ("test", ("D01",))):
        write(folder, [f"{part}/waves/{speaker}/{speaker}_{n}.wav" for speaker in speakers for n in range(3)])
        prompts = [f"{speaker}_{n} words {n} of {speaker}\n" for speaker in speakers for n in range(3)]
        genders = [f"{speaker} {'m' if at else 'f'}\n" for at, speaker in enumerate(speakers)]
        write(folder, {f"{part}/prompts.txt": "".join(prompts), f"{part}/genders.txt": "".join(genders)})


SEQUENCES = {"train/MOT17-02-FRCNN": 3, "train/MOT17-04-FRCNN": 3, "test/MOT17-01-FRCNN": 3}


@card(
    samples={
        f"{sequence}/img1/{n:06d}": "train: gt.json jpg json" if sequence.startswith("train") else "test: jpg json"
        for sequence, frames in SEQUENCES.items()
        for n in range(1, frames + 1)
    },
    holds={"test/MOT17-01-FRCNN/img1/000002": '"column_3":12,"column_4":10'},
)
def mot17(folder: Path) -> None:
    for sequence, frames in SEQUENCES.items():
        numbers = range(1, frames + 1)
        write(folder, [f"{sequence}/img1/{n:06d}.jpg" for n in numbers])
        found = [f"{n},-1,{10 + k},10,5,5,0.9,-1,-1,-1" for n in numbers for k in range(3)]
        write(folder, {f"{sequence}/det/det.txt": "\n".join(found)})
        if sequence.startswith("train"):
            true = [f"{n},{k},{10 + k},10,5,5,1,1,0.9" for n in numbers for k in range(1, 3)]
            write(folder, {f"{sequence}/gt/gt.txt": "\n".join(true)})
