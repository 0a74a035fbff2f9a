"""Public sets of chats, instructions, preferences and reviews, as their cards describe the files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.layouts.cards_speech import lines
from tests.layouts.layout import card, picture, table, write

CHAT: dict[str, Any] = {"sample_type": "ConversationSample"}


def turns(question: str, answer: str) -> list[dict[str, str]]:
    return [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]


MIX = [
    ("000000033471", "coco/train2017/000000033471.jpg"),
    ("000000052846", "coco/train2017/000000052846.jpg"),
    ("n161313", "gqa/images/2354786.jpg"),
    ("01540", "ocr_vqa/images/0061233706.jpg"),
    ("vg_7", "vg/VG_100K_2/2403.jpg"),
    ("wgByO4Y_0", None),
    ("fHN31HN_2", None),
]


@card(
    samples={name: "jpg json" if image else "json" for name, image in MIX},
    holds={"01540": "A bus of 01540", "wgByO4Y_0": "A bus of wgByO4Y_0"},
    **CHAT,
)
def llava_mix_665k(folder: Path) -> None:
    write(folder, [image for _, image in MIX if image])
    chats: list[dict[str, Any]] = [
        {
            "id": name,
            **({"image": image} if image else {}),
            "conversations": turns("<image>\nWhat?" if image else "What?", f"A bus of {name}"),
        }
        for name, image in MIX
    ]
    write(folder, {"llava_v1_5_mix665k.json": json.dumps(chats), "README.md": "---\nlicense: cc-by-4.0\n---"})


PAIRS = [f"{n:09d}" for n in (4539375, 2239345, 5947502, 5116462, 2017758)]


@card(
    samples=dict.fromkeys(PAIRS, "blip_laion_cc_sbu_558k_meta.json jpg json"),
    holds={PAIRS[0]: ("a photo of 004539375", "Render a clear description")},
    **CHAT,
)
def llava_pretrain(folder: Path) -> None:
    images = {name: f"{name[:5]}/{name}.jpg" for name in PAIRS}
    write(folder, [f"images/{image}" for image in images.values()])
    question = "Render a clear description.\n<image>"
    chats = [{"id": name, "image": image, "conversations": turns(question, "a bus")} for name, image in images.items()]
    meta = [
        {"id": name, "image": image, "blip_caption": f"a photo of {name}", "url": f"http://x.org/{n}.jpg"}
        for n, (name, image) in enumerate(images.items())
    ]
    write(
        folder, {"blip_laion_cc_sbu_558k.json": json.dumps(chats), "blip_laion_cc_sbu_558k_meta.json": json.dumps(meta)}
    )
    write(folder, {"README.md": "# LLaVA Visual Instruct Pretrain", ".gitattributes": "*.zip filter=lfs"})


@card(
    samples={f"{n:09d} | mllm_demo_data/{n + 1}": "jpg json" for n in range(6)},
    holds={"000000002 | mllm_demo_data/3": "Who are they 2?"},
    **CHAT,
)
def sharegpt_with_pictures(folder: Path) -> None:
    write(folder, [f"mllm_demo_data/{n + 1}.jpg" for n in range(6)])
    chats = [
        {
            "messages": [
                {"content": f"<image>Who are they {n}?", "role": "user"},
                {"content": "Kane and Gretzka.", "role": "assistant"},
            ],
            "images": [f"mllm_demo_data/{n + 1}.jpg"],
        }
        for n in range(6)
    ]
    write(folder, {"mllm_demo.json": json.dumps(chats, indent=2)})


@card(
    samples={f"{n:09d} | pictures/receipt_{n}": "json png" for n in range(6)},
    holds={"000000004 | pictures/receipt_4": "The total is 4"},
    **CHAT,
)
def openai_chats_with_pictures(folder: Path) -> None:
    write(folder, [f"pictures/receipt_{n}.png" for n in range(6)])
    chats = []
    for n in range(6):
        image = {"type": "image_url", "image_url": {"url": f"pictures/receipt_{n}.png"}}
        asked = [{"type": "text", "text": "What is the total?"}, image]
        answer = {"role": "assistant", "content": f"The total is {n}."}
        chats.append(
            {
                "messages": [
                    {"role": "system", "content": "You read receipts."},
                    {"role": "user", "content": asked},
                    answer,
                ]
            }
        )
    write(folder, {"chats.jsonl": lines(chats)})


@card(
    samples={f"identity_{n} | demo/{n}": "jpg json" for n in range(6)},
    holds={"identity_5 | demo/5": "A woman 5"},
    **CHAT,
)
def qwen_vl_chats(folder: Path) -> None:
    write(folder, [f"demo/{n}.jpg" for n in range(6)])
    chats = [
        {
            "id": f"identity_{n}",
            "conversations": [
                {"from": "user", "value": f"Picture 1: <img>demo/{n}.jpg</img>\nWho is it?"},
                {"from": "assistant", "value": f"A woman {n} and her dog."},
            ],
        }
        for n in range(6)
    ]
    write(folder, {"train.json": json.dumps(chats, indent=2)})


@card(
    samples={
        **{f"train/{n:09d}": "train: json" for n in range(5)},
        **{f"valid/{n:09d}": "val: json" for n in range(2)},
    },
    **CHAT,
)
def openai_chats_alone(folder: Path) -> None:
    for name, count in (("train", 5), ("valid", 2)):
        chats = [
            {"messages": [{"role": "user", "content": f"Hi {n}"}, {"role": "assistant", "content": "Hello"}]}
            for n in range(count)
        ]
        write(folder, {f"{name}.jsonl": lines(chats)})


def rows_of(names: Iterable[str], count: int) -> list[dict[str, str]]:
    return [{name: f"the {name} {n}" for name in names} for n in range(count)]


@card(
    samples={f"{n:09d}": "json" for n in range(50)},
    holds={"000000049": "the instruction 49"},
    sample_type="CrudeSample",
)
def alpaca(folder: Path) -> None:
    rows = rows_of(("instruction", "input", "output"), 50)
    write(folder, {"alpaca_data.json": json.dumps(rows, indent=4), "README.md": "# Alpaca", "LICENSE": "CC BY-NC 4.0"})
    write(folder, ["assets/alpaca_main.jpg", "assets/logo.png"])


@card(
    samples={
        f"{name}/{n:09d}": f"{name}: json txt | {name}: json"
        for name, count in (("train", 6), ("test", 3))
        for n in range(count)
    },
    holds={"test/000000002": ("the chosen 2", "the rejected 2", "the prompt 2")},
    sample_type="CrudeSample",
)
def preferences_of_splits(folder: Path) -> None:
    for name, count in (("train", 6), ("test", 3)):
        write(folder, {f"{name}.jsonl": lines(rows_of(("prompt", "chosen", "rejected"), count))})
    write(folder, {"README.md": "# Preferences"})


@card(
    samples={
        f"data/{name}-00000-of-00001/{n:09d}": f"{name}: cls json jpg txt | {name}: cls jpg txt | {name}: jpg json txt"
        for name in ("train", "test")
        for n in range(4)
    },
    sample_type="ImageClassificationSample|CaptioningSample|CrudeSample",
)
def pictures_labels_and_texts_in_parquet(folder: Path) -> None:
    for name in ("train", "test"):
        columns: dict[str, list[Any]] = {"image": [picture()] * 4, "label": [0, 1, 0, 1]}
        columns["text"] = [f"a {name} cat {n}" for n in range(4)]
        write(folder, {f"data/{name}-00000-of-00001.parquet": table(columns)})
    write(folder, {"README.md": "# Memes"})


@card(
    samples={
        f"data/{name}-00000-of-00001/{n:09d}": f"{name}: attention_mask.npy input_ids.npy json"
        for name in ("train", "test")
        for n in range(4)
    },
    holds={"data/test-00000-of-00001/000000002": ("'<i4'", "'|i1'", '"source":"wiki"')},
)
def tokens_in_parquet(folder: Path) -> None:
    for name in ("train", "test"):
        tokens = pa.array([[*range(n + 1)] for n in range(4)], pa.list_(pa.int32()))
        mask = pa.array([[1] * (n + 1) for n in range(4)], pa.list_(pa.int8()))
        columns: dict[str, Any] = {"input_ids": tokens, "attention_mask": mask, "source": ["wiki"] * 4}
        write(folder, {f"data/{name}-00000-of-00001.parquet": table({**columns, "number": [*range(4)]})})


REVIEWS = [
    f"{part}/{kind}/{n}_{score}"
    for part in ("train", "test")
    for kind, score in (("pos", 9), ("neg", 2))
    for n in range(5)
]


@card(
    samples={
        name: " | ".join(f"{name.partition('/')[0]}: {parts}" for parts in ("txt", "cls txt", "cls json txt"))
        for name in REVIEWS
    },
    holds={REVIEWS[7]: f"The review {REVIEWS[7]}"},
)
def imdb_reviews(folder: Path) -> None:
    write(folder, {f"{name}.txt": f"The review {name}" for name in REVIEWS})
    write(folder, {"README": "Large Movie Review Dataset v1.0", "imdb.vocab": "the\nand\na\n"})
    for part in ("train", "test"):
        for kind in ("pos", "neg"):
            urls = "".join(f"http://www.imdb.com/title/tt0064354/usercomments{n}\n" for n in range(5))
            write(folder, {f"{part}/urls_{kind}.txt": urls})
