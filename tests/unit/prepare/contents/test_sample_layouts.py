from __future__ import annotations

from typing import Any

import pytest

from loader.prepare.contents.sample_layouts import find_layout

TURNS = [{"from": "human", "value": "<image><image>Which?"}, {"from": "gpt", "value": "The first."}]
IMAGES = {"0.jpg": "image 0", "2.jpg": "image 2", "10.jpg": "image 10"}


def run(code: str, parts: dict[str, Any]) -> Any:
    names: dict[str, Any] = {}
    exec(code, names)
    wanted = {name: value for name, value in parts.items() if names["part_filter"](name)}
    return names["sample_loader"]({**wanted, "__key__": "s.tar/0.jpg"})


@pytest.mark.parametrize(
    ("document", "sequence"),
    [
        ({"texts": ["a", None, None, "b", None]}, ["a", "image 0", "image 2", "b", "image 10"]),
        ({"text": "<image>a<image> b<image>"}, ["image 0", "a", "image 2", " b", "image 10"]),
        ({"sequence": ["0.jpg", "a", "2.jpg", "<image>"]}, ["image 0", "a", "image 2", "image 10"]),
        (
            {"content": [{"type": "image"}, {"type": "text", "text": "a"}, {"image": "x.jpg"}, 2]},
            ["image 0", "a", "image 2", "image 10"],
        ),
    ],
)
def test_the_code_puts_images_in_their_places(document: dict[str, Any], sequence: list[str]) -> None:
    layout = find_layout([*IMAGES, "json"], document)
    assert layout is not None
    assert layout.type_name == "InterleavedSample"
    assert run(layout.code, {**IMAGES, "json": document, "other": "not read"}) == {"sequence": sequence}
    pngs = {"0.PNG": "image 0", "2.jpg": "image 2", "10.webp": "image 10"}  # as later samples may have
    assert run(layout.code, {**pngs, "json": document}) == {"sequence": sequence}
    with pytest.raises(ValueError, match="3 places of images, and the sample 2 images"):
        run(layout.code, {"0.jpg": "", "1.jpg": "", "json": document})


@pytest.mark.parametrize(
    ("texts", "images", "sequence"),
    [
        (["a", "b", "c"], ["2.jpg", "0.jpg", "10.jpg"], ["image 2", "a", "image 0", "b", "image 10", "c"]),
        ([None, "a", "", None], ["10.jpg", None, "0.jpg", "2.jpg"], ["image 10", "a", "image 0", "image 2"]),
        (["a", None, None, "b"], ["https://x/7", "https://x/5", "https://x/6", ""],
         ["image 0", "a", "image 2", "image 10", "b"]),
    ],
)  # fmt: skip
def test_a_list_of_texts_and_one_of_images_line_up(texts: list[Any], images: list[Any], sequence: list[str]) -> None:
    document = {"texts": texts, "images": images}
    layout = find_layout([*IMAGES, "json"], document)
    assert layout is not None
    assert layout.type_name == "InterleavedSample"
    assert layout.what == "json[texts] and json[images] line up, and at the same place the image comes first"
    assert run(layout.code, {**IMAGES, "json": document}) == {"sequence": sequence}
    with pytest.raises(ValueError, match=r"there are \d texts and \d images; expected lists of one length"):
        run(layout.code, {**IMAGES, "json": {"texts": [*texts, "more"], "images": images}})
    with pytest.raises(ValueError, match="the list has 4 images, and the sample 3"):
        run(layout.code, {**IMAGES, "json": {"texts": list("abcd"), "images": list("wxyz")}})


def test_numbered_images_and_texts_follow_their_numbers() -> None:
    parts = {"10.txt": "c", "2.JPG": "b", "1.txt": "a"}
    layout = find_layout(list(parts), None)
    assert layout is not None
    assert run(layout.code, parts) == {"sequence": ["a", "b", "c"]}


def test_a_conversation_gets_all_images() -> None:
    layout = find_layout(["0.jpg", "2.jpg", "json"], {"conversations": TURNS})
    assert layout is not None
    assert layout.type_name == "ConversationSample"
    parts = {"2.jpg": "b", "0.jpg": "a", "json": {"conversations": TURNS}}
    turns = {"conversations": TURNS}
    assert run(layout.code, parts) == {"turns": turns, "images": ["a", "b"], "videos": [], "audios": []}
    mixed = find_layout(["0.jpg", "1.jpg", "2.mp4", "json"], {"conversations": TURNS})
    assert mixed is not None
    parts = {"0.jpg": "a", "1.jpg": "b", "2.mp4": "c", "3.wav": "d", "json": turns}
    assert run(mixed.code, parts) == {"turns": turns, "images": ["a", "b"], "videos": ["c"], "audios": ["d"]}


@pytest.mark.parametrize(
    ("parts", "document"),
    [
        (["jpg", "txt"], None),
        (["0.jpg", "0.txt"], None),
        (["0.jpg", "1.jpg", "json"], {"texts": ["a", "b"]}),
        (["0.jpg", "1.jpg", "json"], {"texts": [None, ["b"]]}),
        (["0.jpg", "1.jpg", "json"], {"texts": ["a", "b", "c"], "images": ["0.jpg", "1.jpg"]}),
        (["0.jpg", "1.jpg", "json"], {"texts": ["a", "b"], "images": [{}, {}]}),
        (["0.jpg", "1.jpg", "json"], {"texts": ["a", "b", "c"], "images": ["0", "1", "2"]}),
        (["0.jpg", "1.jpg", "json"], None),
        (["0.jpg", "1.jpg", "json", "mp3"], {"texts": ["a", None]}),
        (["json"], {"texts": ["a", None]}),
    ],
)
def test_other_layouts_stay_crude(parts: list[str], document: dict[str, Any] | None) -> None:
    assert find_layout(parts, document) is None
