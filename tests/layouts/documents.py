"""Documents of texts and pictures, and chats, as their data sets and tools write them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from tests.layouts.layout import layout, picture, table, write

INLINE = base64.b64encode(picture("PNG")).decode()
MMC4 = {
    "text_list": ["A bus.", "A dog."],
    "image_info": [
        {"image_name": "b9.jpg", "raw_url": "https://x.org/1.jpg", "matched_text_index": 1, "matched_sim": 0.28},
        {"image_name": "c4.png", "matched_text_index": 0, "image_base64": INLINE},
    ],
}
INTERLEAVED: dict[str, Any] = {"sample_type": "InterleavedSample"}


def lines(*values: Any) -> str:
    return "\n".join(map(json.dumps, values))


@layout(
    samples={"000000000": "0.png 1.jpg json", "000000003": "json"},
    left_out={"rows F102": 1, "rows F101": 1, "parts F102": 2, "parts F101": 1},
    forms=("folder",),
    texts={"000000003.json": '{"image_info":[],"texts":["alone"],"images":[null]}'},
    **INTERLEAVED,
)
def mmc4(folder: Path) -> str:
    missing = {"text_list": ["a"], "image_info": [{"image_name": "gone.jpg", "matched_text_index": 0}]}
    beyond = {"text_list": ["a"], "image_info": [{"image_name": "b9.jpg", "matched_text_index": 7}]}
    write(folder, ["images/b9.jpg"])
    write(folder, {"docs.jsonl": lines(MMC4, missing, beyond, {"text_list": ["alone"], "image_info": []})})
    return "docs.jsonl"


@layout(samples={"docs_shard_0/000000000": "0.png 1.jpg json"}, kind="interleaved", **INTERLEAVED)
def mmc4_with_its_pictures(folder: Path) -> None:
    write(folder, ["images/b9.jpg"])
    write(folder, {"docs_shard_0.jsonl": lines(MMC4)})


@layout(
    samples={"000000000": "0.jpg json", "000000001": "json"},
    left_out={"rows F101": 2, "parts F101": 2, "files L102": 1},
    texts={"000000000.json": '{"metadata":"[]","texts":[null,"A bus."],"images":["0.jpg",null]}'},
    **INTERLEAVED,
)
def obelics(folder: Path) -> None:
    images = [[picture(), None], [None], [None], []]
    texts = [[None, "A bus."], ["alone"], ["too", "many"], []]
    write(folder, {"data/train-0.parquet": table({"images": images, "metadata": ["[]"] * 4, "texts": texts})})
    write(folder, {"README.md": "# card"})


@layout(
    samples={"d1": "0.jpg 1.jpg json", "d2": "0.jpg json"},
    left_out={"rows F101": 2, "rows F102": 1, "parts F101": 2, "parts F102": 2, "files L111": 2, "files L102": 1},
    kind="interleaved",
    **INTERLEAVED,
)
def a_json_of_each_document_and_numbered_pictures(folder: Path) -> None:
    write(folder, ["d1_0.jpg", "d1_1.jpg", "d2_0.jpg", "d3_0.jpg", "d3_1.jpg", "notes.txt"])
    urls = ["https://x.org/a.jpg", None, "https://x.org/b.jpg"]
    write(folder, {"d1.json": json.dumps({"texts": [None, "A bus.", None], "images": urls})})
    write(folder, {"d2.json": json.dumps({"text": "A dog: <image>"})})
    write(folder, {"d3.json": json.dumps({"texts": [None, "one"], "images": ["x", None]})})
    write(folder, {"d4.json": '{"texts": [', "d5.json": json.dumps({"text": "<image>", "images": ["gone.jpg"]})})


@layout(
    samples={"train/1/doc": "train: 0.jpg 1.png json", "val/2/doc": "val: 0.jpg json"},
    kind="interleaved",
    **INTERLEAVED,
)
def a_folder_of_each_document(folder: Path) -> None:
    write(folder, ["train/1/page_2.png", "train/1/page_1.jpg", "val/2/images/x.jpg"])
    write(folder, {"train/1/doc.json": json.dumps({"content": ["A", "a.jpg", "b.png"]})})
    write(folder, {"val/2/doc.json": json.dumps(["A", "x.jpg", "B"])})


@layout(error="there are no JSON files in it", kind="interleaved")
def documents_without_documents(folder: Path) -> None:
    write(folder, ["a.jpg", "a.txt"])


def chat(question: str, **media: Any) -> dict[str, Any]:
    return {"conversations": [{"from": "human", "value": question}, {"from": "gpt", "value": "A bus."}], **media}


@layout(
    samples={"a": "json mp4", "b": "json mp4"},
    left_out={"rows F102": 1, "parts F102": 2},
    forms=("folder",),
    sample_type="ConversationSample",
)
def llava_video(folder: Path) -> str:
    write(folder, {"academic/a.mp4": b"\0\0\0\x18ftypmp42", "academic/b.mp4": b"\0\0\0\x18ftypmp42"})
    videos = {name: f"academic/{name}.mp4" for name in "abc"}
    chats = [chat("<image>\nWhat?", id=name, video=path, data_source="0_30_s") for name, path in videos.items()]
    write(folder, {"chats.json": json.dumps(chats)})
    return "chats.json"


@layout(
    samples={"000000000": "0.jpg 1.jpg json", "000000001": "json"},
    left_out={"rows F101": 1, "parts F101": 1},
    forms=("folder",),
    sample_type="ConversationSample",
)
def sharegpt(folder: Path) -> str:
    write(folder, ["images/1.jpg", "images/2.jpg"])
    both = ["images/1.jpg", "images/2.jpg"]
    chats = [chat("<image><image>?", images=both), chat("Hi", images=[]), chat("<image>?", images=both)]
    write(folder, {"chats.jsonl": lines(*chats)})
    return "chats.jsonl"


@layout(
    samples={"000000000": "jpg json", "000000001": "json", "000000002": "json"},
    forms=("folder",),
    sample_type="ConversationSample",
)
def chatml_with_null_keys(folder: Path) -> str:
    write(folder, ["1.jpg"])
    empty = dict.fromkeys(("images", "videos", "audios"))
    asked = [{"type": "image", "image": "1.jpg"}, {"type": "text", "text": "What?"}]
    contents: list[Any] = [asked, "Hi", [{"type": "text", "text": "Hi"}]]
    chats = [
        {"messages": [{"role": "user", "content": c}, {"role": "assistant", "content": "A bus."}], **empty}
        for c in contents
    ]
    write(folder, {"chats.jsonl": lines(*chats)})
    return "chats.jsonl"
