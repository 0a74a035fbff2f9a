"""Public data sets, as their cards describe the files that people download."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from tests.layouts.layout import layout, picture, table, tar_of, write

MP4 = b"\0\0\0\x18ftypmp42" + bytes(32)
WAV = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\x08\0\0\0" + bytes(8)
CARD = ["README.md", ".gitattributes"]
VIDEOS = "0_30_s_academic_v0_1"


def video_chats(*names: str) -> str:
    turns = [{"from": "human", "value": "<image>\nDescribe."}, {"from": "gpt", "value": "A man walks."}]
    return json.dumps(
        [
            {"id": name, "conversations": turns, "data_source": VIDEOS, "video": f"academic_source/{name}.mp4"}
            for name in names
        ]
    )


@layout(
    samples={"a": "json mp4", "a-2": "json mp4"},
    left_out={"files L102": 1, "rows F102": 2, "parts F102": 4},
    sample_type="ConversationSample",
    forms=("folder",),
)
def llava_video_as_it_is_downloaded(folder: Path) -> None:
    write(folder, CARD)
    write(folder, {f"{VIDEOS}/{VIDEOS}_{kind}_processed.json": video_chats("a", "b") for kind in ("cap", "oe_qa")})
    write(folder, {f"{VIDEOS}/{VIDEOS}_videos_1.tar": tar_of({"academic_source/a.mp4": MP4})})


@layout(
    samples={"a": "json mp4"},
    left_out={"rows F102": 1, "parts F102": 2},
    sample_type="ConversationSample",
    forms=("folder",),
)
def llava_video_unpacked(folder: Path) -> str:
    write(folder, CARD)
    write(folder, {f"{VIDEOS}/{VIDEOS}_cap.json": video_chats("a", "b"), f"{VIDEOS}/academic_source/a.mp4": MP4})
    return f"{VIDEOS}/{VIDEOS}_cap.json"


MMC4 = "docs_no_face_shard_{}_v2.jsonl"


def mmc4_document(*names: str) -> str:
    infos = [{"image_name": name, "raw_url": f"https://x.org/{name}", "matched_text_index": 0} for name in names]
    document: dict[str, Any] = {"text_list": ["One.", "Two."], "url": "https://x.org/page", "image_info": infos}
    return json.dumps({**document, "similarity_matrix": [[0.2, 0.1]], "could_have_url_duplicate": 0})


@layout(
    samples={f"{MMC4[:-6].format(0)}/000000000": "0.jpg 1.png json", f"{MMC4[:-6].format(1)}/000000000": "0.jpg json"},
    left_out={"rows F102": 1, "parts F102": 2},
    forms=("folder", "zip"),
    sample_type="InterleavedSample",
)
def mmc4_shards_next_to_their_pictures(folder: Path) -> None:
    write(folder, ["images/a.jpg", "images/b.png", "images/c.jpg"])
    write(folder, {MMC4.format(0): mmc4_document("a.jpg", "b.png")})
    write(folder, {MMC4.format(1): f"{mmc4_document('c.jpg')}\n{mmc4_document('gone.jpg')}"})


@layout(error="archives: 2 .*files: 1", forms=("folder",))
def mmc4_as_it_is_downloaded(folder: Path) -> None:
    write(folder, ["images/a.jpg"])
    for number in (0, 1):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as file:
            file.writestr(MMC4.format(number), mmc4_document("a.jpg"))
        write(folder, {f"{MMC4.format(number)}.zip": data.getvalue()})


@layout(
    samples={"000000000": "0.jpg 1.jpg json"},
    left_out={"rows F102": 1, "parts F102": 3, "files L102": 1},
    sample_type="InterleavedSample",
    forms=("folder", "tar"),
)
def obelics_with_downloaded_pictures(folder: Path) -> None:
    images = [["pics/a.jpg", None, "pics/b.jpg"], ["pics/a.jpg", None, "pics/gone.jpg"]]
    texts = [[None, "A bus.", None]] * 2
    others: dict[str, list[Any]] = {"metadata": ["[]"] * 2, "general_metadata": ["{}"] * 2, "texts": texts}
    write(folder, {"data/train-00000-of-00001.parquet": table({"images": images, **others})})
    write(folder, [*CARD, "pics/a.jpg", "pics/b.jpg"])


def lvis_file(*folders_and_ids: tuple[str, int]) -> str:
    urls = [(number, f"http://images.cocodataset.org/{name}/{number:012d}.jpg") for name, number in folders_and_ids]
    images = [{"id": n, "height": 6, "width": 8, "coco_url": url, "neg_category_ids": [2]} for n, url in urls]
    flat = {"area": 4.5, "segmentation": [[1.0, 1.0, 4.0, 1.0, 4.0, 4.0]], "bbox": [1.0, 1.0, 3.0, 3.0]}
    objects = [{"id": n, "image_id": n, "category_id": 1, **flat} for n, _ in urls]
    categories = [{"id": 1, "name": "aerosol_can", "frequency": "c", "synset": "aerosol.n.02"}]
    return json.dumps({"info": {}, "images": images, "annotations": objects, "categories": categories})


def lvis_files(folder: Path) -> None:
    names = [f"train2017/{n:012d}.jpg" for n in (1, 2, 9)]
    write(folder, [*names, "val2017/000000000004.jpg"])
    write(folder, {"lvis_v1_train.json": lvis_file(("train2017", 1))})
    write(folder, {"lvis_v1_val.json": lvis_file(("train2017", 2), ("val2017", 4))})


@layout(
    samples={"train2017/000000000002": "jpg json", "val2017/000000000004": "jpg json"},
    left_out={"files L111": 2},
    forms=("folder",),
)
def lvis(folder: Path) -> str:
    lvis_files(folder)
    return "lvis_v1_val.json"


@layout(
    samples={
        "train2017/000000000001": "train: jpg json",
        "train2017/000000000002": "val: jpg json",
        "val2017/000000000004": "val: jpg json",
    },
    left_out={"files L119": 1},
    forms=("folder",),
)
def lvis_as_a_folder(folder: Path) -> None:
    lvis_files(folder)


def objects365_file(*names: str) -> str:
    images = [{"id": n, "height": 6, "width": 8, "file_name": f"images/{name}"} for n, name in enumerate(names)]
    flags = {"iscrowd": 0, "isfake": 0, "isreflected": 1}
    objects = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 1, 2, 2], **flags} for n in range(len(names))]
    return json.dumps({"images": images, "annotations": objects, "categories": [{"id": 1, "name": "Person"}]})


@layout(
    samples={"patch0/objects365_v1_1": "jpg json"},
    left_out={"rows F102": 1, "parts F102": 2},
    forms=("folder",),
    note="files of zhiyuan_objv2_train.json are missing: 1",
)
def objects365(folder: Path) -> str:
    write(folder, ["train/patch0/objects365_v1_1.jpg"])
    names = ("v1/patch0/objects365_v1_1.jpg", "v2/patch16/objects365_v2_2.jpg")
    write(folder, {"zhiyuan_objv2_train.json": objects365_file(*names)})
    return "zhiyuan_objv2_train.json"


@layout(samples={"patch0/objects365_v1_1": "jpg json"}, forms=("folder",))
def objects365_as_it_is_downloaded(folder: Path) -> None:
    write(folder, {"train/patch0.tar": tar_of({"patch0/objects365_v1_1.jpg": picture()})})
    write(folder, {"train/zhiyuan_objv2_train.json": objects365_file("v1/patch0/objects365_v1_1.jpg")})


@layout(
    samples={
        "audio/train/-tr0": "train: json txt wav",
        "audio/test/_te0": "test: json txt wav",
        "audio/test/_te0-2": "test: json txt wav",
    },
    left_out={"rows F102": 1, "parts F102": 3, "files L102": 1},
)
def audiocaps(folder: Path) -> None:
    header = "audiocap_id,youtube_id,start_time,caption\n"
    write(folder, ["README.md"])
    write(folder, {"train.csv": f'{header}1,-tr0,30,"Dogs bark, far"\n2,gone,10,A car passes\n'})
    write(folder, {"test.csv": f"{header}3,_te0,0,Rain\n4,_te0,0,Rain falls\n"})
    write(folder, {"audio/train/-tr0.wav": WAV, "audio/test/_te0.wav": WAV})


def voxceleb_files(folder: Path) -> None:
    for name in ("dev_wav/wav/id10001/1zc/00001", "dev_wav/wav/id10001/1zc/00002", "test_wav/wav/id10270/7gW/00001"):
        write(folder, {f"vox1_{name}.wav": WAV})
    write(folder, {"vox1_meta.csv": "VoxCeleb1 ID\tVGGFace1 ID\tGender\nid10001\tA.J._Buckley\tm\n"})


@layout(error="text tables: 1 .*files: 3 ", forms=("folder", "zip"))
def voxceleb(folder: Path) -> None:
    voxceleb_files(folder)


@layout(
    samples={
        "vox1_dev_wav/wav/id10001/1zc/00001": "wav",
        "vox1_dev_wav/wav/id10001/1zc/00002": "wav",
        "vox1_test_wav/wav/id10270/7gW/00001": "wav",
    },
    left_out={"files L103": 1},
    options={"group_by": "name"},
    forms=("folder", "zip"),
)
def voxceleb_without_its_table(folder: Path) -> None:
    voxceleb_files(folder)


@layout(error="a dataset of TensorFlow Datasets, such as RLDS", forms=("folder",))
def open_x_in_tfrecords(folder: Path) -> None:
    inner = "fractal20220817_data/0.1.0"
    write(
        folder, {f"{inner}/fractal20220817_data-train.tfrecord-0000{n}-of-00002": b"\x08" + bytes(30) for n in (0, 1)}
    )
    write(folder, {f"{inner}/dataset_info.json": "{}", f"{inner}/features.json": "{}"})


def lerobot_files(folder: Path) -> None:
    write(folder, {**dict.fromkeys(["README.md", "meta/tasks.jsonl"], '{"task": "pick"}'), "meta/info.json": "{}"})
    for episode in ("episode_000000", "episode_000001"):
        steps = table({"observation.state": [[0.0] * 7] * 2, "action": [[0.5] * 7] * 2, "frame_index": [0, 1]})
        write(folder, {f"data/chunk-000/{episode}.parquet": steps})
        for camera in ("image", "wrist_image"):
            write(folder, {f"videos/chunk-000/observation.images.{camera}/{episode}.mp4": MP4})


@layout(error="Parquet and Arrow tables: 2 .*text tables: 1 .*files: 4 ", forms=("folder",))
def open_x_of_lerobot(folder: Path) -> None:
    lerobot_files(folder)


CAMERAS = "observation_images_image.mp4 observation_images_wrist_image.mp4"


@layout(
    samples={f"videos/chunk-000/episode_00000{n}": CAMERAS for n in (0, 1)},
    left_out={"files L102": 2, "files L103": 3},
    options={"group_by": "parallel"},
    note="observation.images.wrist_image",
    forms=("folder",),
)
def videos_of_lerobot(folder: Path) -> None:
    lerobot_files(folder)


@layout(
    samples={f"data/chunk-000/episode_00000{n}/00000000{row}": "json" for n in (0, 1) for row in (0, 1)},
    left_out={"files L102": 2, "files L103": 1, "files L119": 4},
    kind="hf",
    forms=("folder",),
)
def steps_of_lerobot(folder: Path) -> None:
    lerobot_files(folder)


@layout(
    samples={"000000000": "jpg txt", "000000001": "jpg txt", "000000002": "jpg txt"},
    texts={"000000000.txt": 'A 12" pipe', "000000001.txt": '"I said no, and left', "000000002.txt": "caf\u00e9"},
    sample_type="CaptioningSample",
    forms=("folder",),
)
def cc12m(folder: Path) -> str:
    write(folder, [f"{n}.jpg" for n in range(3)])
    captions = ('A 12" pipe', '"I said no, and left', "caf\u00e9")
    lines = [f"{(folder / f'{n}.jpg').as_uri()}\t{caption}\n" for n, caption in enumerate(captions)]
    write(folder, {"cc12m.tsv": "".join(lines)})
    return "cc12m.tsv"


@layout(
    samples={"00a1": "jpg txt", "00b2": "jpg txt"},
    left_out={"rows F102": 1, "parts F102": 2, "files L102": 1, "files L119": 1},
    sample_type="CaptioningSample",
)
def kaggle_with_ids(folder: Path) -> None:
    write(folder, ["train/00a1.jpg", "train/00b2.jpg", "test/0c33.jpg"])
    write(folder, {"train.csv": "id,breed\n00a1,beagle\n00b2,boxer\n0d44,boxer\n"})
    write(folder, {"sample_submission.csv": "id,beagle,boxer\n0c33,0.5,0.5\n"})


@layout(samples={"train/1": "jpg txt", "train/2": "jpg txt"}, sample_type="CaptioningSample", forms=("folder",))
def kaggle_with_names_as_ids(folder: Path) -> None:
    write(folder, ["train/1.jpg", "train/2.jpg"])
    write(folder, {"train.csv": "image_id,breed\n1.jpg,beagle\n2.jpg,boxer\n"})


@layout(samples={"1": "cls png", "2": "cls png"}, sample_type="ImageClassificationSample", forms=("folder",))
def kaggle_with_numbers_as_ids(folder: Path) -> None:
    write(folder, ["train/1.png", "train/2.png"])
    write(folder, {"trainLabels.csv": "id,label\n1,0\n2,1\n"})
