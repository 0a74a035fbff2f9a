"""Public sets of sounds, and of videos with texts, as their cards describe the files."""

from __future__ import annotations

import json
from pathlib import Path

from tests.layouts.cards_speech import tsv
from tests.layouts.layout import card, write

WORDS = [f"{word}/{n:08x}_nohash_0" for word in ("bed", "cat") for n in range(6)]


@card(
    samples={name: {0: "val: wav", 1: "test: wav"}.get(at % 6, "train: wav | -: wav") for at, name in enumerate(WORDS)},
)
def speech_commands(folder: Path) -> None:
    write(folder, [f"{name}.wav" for name in WORDS])
    for number, name in enumerate(("validation_list.txt", "testing_list.txt")):
        write(folder, {name: "".join(f"{word}.wav\n" for word in WORDS[number::6])})
    write(folder, {"README.md": "# Speech commands", "LICENSE": "CC-BY 4.0"})


@card(
    samples={f"audio/{1 + n % 5}-{100032 + n}-A-{n}": "cls json wav" for n in range(10)},
    holds={"audio/1-100037-A-5": "thunder 5"},
)
def esc_50(folder: Path) -> None:
    names = [f"{1 + n % 5}-{100032 + n}-A-{n}" for n in range(10)]
    write(folder, [f"audio/{name}.wav" for name in names])
    rows = [[f"{name}.wav", 1 + n % 5, n, f"thunder {n}", True, 100032 + n, "A"] for n, name in enumerate(names)]
    write(folder, {"meta/esc50.csv": tsv("filename fold target category esc10 src_file take", rows, ",")})
    write(folder, {"meta/esc50-human.xlsx": b"PK\x03\x04", "README.md": "# ESC-50", "requirements.txt": "librosa"})


TUBES = ["--4gqARaEJE", "--BfvyPmVMo", "0_bSmcKZZXE", "-_xYzZ12345", "zz35Va7tYmA", "aB3dE6gH9jK"]


@card(
    samples={f"eval_segments/{name}": "json wav" for name in TUBES},
    holds={f"eval_segments/{TUBES[2]}": "/m/032"},
)
def audioset(folder: Path) -> None:
    write(folder, [f"eval_segments/{name}.wav" for name in TUBES])
    rows = "".join(f'{name}, {30 * n}.000, {30 * n + 10}.000, "/m/068hy,/m/03{n}"\n' for n, name in enumerate(TUBES))
    head = "# Segments csv created Sun Mar  5 10:54:25 2017\n# num_ytids=6, num_segs=6, num_unique_labels=7\n"
    write(folder, {"eval_segments.csv": f"{head}# YTID, start_seconds, end_seconds, positive_labels\n{rows}"})


SLICES = [f"{fold}/{number}-3-0-{take}" for fold, number in (("fold1", 101415), ("fold5", 100032)) for take in range(4)]


@card(samples={f"audio/{name}": "cls json wav" for name in SLICES}, holds={"audio/fold5/100032-3-0-2": "dog_bark"})
def urbansound_8k(folder: Path) -> None:
    write(folder, [f"audio/{name}.wav" for name in SLICES])
    header = "slice_file_name fsID start end salience fold classID class"
    rows = [
        [f"{name[6:]}.wav", name[6:12], 0.5 * at, 0.5 * at + 4, 1, name[4], at % 3, "dog_bark"]
        for at, name in enumerate(SLICES)
    ]
    write(folder, {"metadata/UrbanSound8K.csv": tsv(header, rows, ",")})


CLOTHO = [
    "Distorted AM Radio noise",
    "Paper_Parchment_Rustling",
    "03 Whales Slowing Down",
    "Rope tied to boat",
    "carpenter bee",
]


@card(
    samples={
        f"development/{name}": "clotho_metadata_development.json json wav | clotho_captions_development.json json wav"
        for name in CLOTHO
    },
    holds={f"development/{CLOTHO[2]}": ("sentence 3 of 2", "keyword 2")},
)
def clotho(folder: Path) -> None:
    write(folder, [f"development/{name}.wav" for name in CLOTHO])
    captions = [[f"{name}.wav", *(f"sentence {c} of {at}" for c in range(1, 6))] for at, name in enumerate(CLOTHO)]
    header = "file_name caption_1 caption_2 caption_3 caption_4 caption_5"
    write(folder, {"clotho_captions_development.csv": tsv(header, captions, ",")})
    metadata = [
        [f"{name}.wav", f"keyword {at};radio", 5000 + at, f"https://x.org/{at}", "user", "CC0"]
        for at, name in enumerate(CLOTHO)
    ]
    header = "file_name keywords sound_id sound_link manufacturer license"
    write(folder, {"clotho_metadata_development.csv": tsv(header, metadata, ",")})


@card(
    samples={
        f"genres_original/{genre}/{genre}_{n:05d}": "cls json wav" for genre in ("blues", "rock") for n in range(4)
    },
    holds={"genres_original/rock/rock_00003": '"rock"'},
)
def gtzan(folder: Path) -> None:
    names = [f"{genre}.{n:05d}.wav" for genre in ("blues", "rock") for n in range(4)]
    write(folder, [f"genres_original/{name.partition('.')[0]}/{name}" for name in names])
    rows = [[name, 661794, 0.35 + at, 1784.1, name.partition(".")[0]] for at, name in enumerate(names)]
    header = "filename length chroma_stft_mean spectral_centroid_mean label"
    write(folder, {"features_30_sec.csv": tsv(header, rows, ",")})


@card(samples={f"clips/{n:05d}": "mp4 txt" for n in range(6)}, sample_type="CrudeSample|VideoSample")
def videos_with_texts(folder: Path) -> None:
    write(folder, [f"clips/{n:05d}.mp4" for n in range(6)])
    write(folder, {f"clips/{n:05d}.txt": f"A man walks {n}." for n in range(6)})


WEB_VIDEOS = [(f"{1066674100 + n}", f"{14001 + n // 3:06d}_{14050 + n // 3:06d}") for n in range(6)]


@card(
    samples={f"videos/{page}/{name}": "json mp4 | json mp4 txt" for name, page in WEB_VIDEOS},
    holds={f"videos/{WEB_VIDEOS[4][1]}/{WEB_VIDEOS[4][0]}": "Aerial shot 4"},
)
def webvid(folder: Path) -> None:
    write(folder, [f"videos/{page}/{name}.mp4" for name, page in WEB_VIDEOS])
    url = "https://ak.picdn.net/shutterstock/videos"
    rows = [
        [
            name,
            f"{url}/{name}/preview/stock-footage.mp4",
            f"PT00H00M{n:02d}S",
            page,
            f'"Aerial shot {n}, winter forest"',
        ]
        for n, (name, page) in enumerate(WEB_VIDEOS)
    ]
    write(folder, {"results_2M_train.csv": tsv("videoid contentUrl duration page_dir name", rows, ",")})


MOMENTS = {"train": ["v_QOlSCBRmfWY", "v_ehGHCYKzyZ8", "v_nwznKOuZM7w"], "val_1": ["v_uqiMw7tQ1Cc", "v_bXdq2zI1Ms0"]}


@card(
    samples={
        f"{name} | videos/{name}": f"{split.removesuffix('_1')}: json mp4"
        for split, names in MOMENTS.items()
        for name in names
    },
    holds={"v_bXdq2zI1Ms0 | videos/v_bXdq2zI1Ms0": "A woman of v_bXdq2zI1Ms0"},
)
def activitynet_captions(folder: Path) -> None:
    for split, names in MOMENTS.items():
        write(folder, [f"videos/{name}.mp4" for name in names])
        document = {
            name: {"duration": 82.73, "timestamps": [[0.83, 19.86]], "sentences": [f"A woman of {name} dances."]}
            for name in names
        }
        write(folder, {f"{split}.json": json.dumps(document)})


MSRVTT = [f"video{n}" for n in range(8)]


@card(
    samples={
        f"{name} | TrainValVideo/{name} | {n}": " | ".join(
            f"{split}: cls? json mp4 {joined}.json"
            for split in (["train"] if n < 6 else ["val", "validate"])
            for joined in ("sentences", "videos", "train_val_videodatainfo")
        )
        for n, name in enumerate(MSRVTT)
    },
    holds={"video7 | TrainValVideo/video7 | 7": ("a man sings 7 again", "youtube.com/watch?v=v7")},
)
def msr_vtt(folder: Path) -> None:
    write(folder, [f"TrainValVideo/{name}.mp4" for name in MSRVTT])
    videos = [
        {
            "category": n,
            "url": f"https://www.youtube.com/watch?v=v{n}",
            "video_id": name,
            "start time": 137.72,
            "end time": 149.44,
            "split": "train" if n < 6 else "validate",
            "id": n,
        }
        for n, name in enumerate(MSRVTT)
    ]
    sentences = [
        {"caption": f"a man sings {n}{again}", "video_id": name, "sen_id": 2 * n + at}
        for n, name in enumerate(MSRVTT)
        for at, again in enumerate(("", " again"))
    ]
    document = {"info": {"year": "2016"}, "videos": videos, "sentences": sentences}
    write(folder, {"train_val_videodatainfo.json": json.dumps(document)})
