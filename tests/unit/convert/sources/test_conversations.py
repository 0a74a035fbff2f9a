"""Conversations become samples with their pictures, in the layouts of LLaVA, ShareGPT and ChatML."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from loader.convert.rows.row import FileRef, UrlRef, ValueRef
from loader.convert.sources.conversations import ConversationsSource
from loader.convert.sources.detect import open_source
from loader.convert.tables.source_options import SourceOptions
from loader.dataset.opening import folder_at
from loader.errors import ConfigError
from tests.unit.convert.sources.imported import (
    faults_of,
    field_map_of,
    import_source,
    load,
    red,
    rows_of,
    write_picture,
)


def turns(question: str, answer: str = "Yes.") -> list[dict[str, str]]:
    return [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]


def write(folder: Path, documents: list[Any], name: str = "llava.json") -> ConversationsSource:
    for number in range(4):
        write_picture(folder / f"images/{number}.{'png' if number == 3 else 'jpg'}", 60 * number)
    path = folder / name
    lines = "".join(f"{json.dumps(document)}\n" for document in documents)
    path.write_text(lines if name.endswith("l") else json.dumps(documents, indent=1))
    return ConversationsSource(path=str(path))


ONE_PICTURE = [
    {"id": 7, "conversations": turns("Hello?")},
    {"id": 7, "image": "1.jpg", "conversations": turns("<image>\nA cat?")},
    {"id": "a/b.c", "image": ["3.png"], "system": "Be brief.", "messages": [
        {"role": "user", "content": "A dog? <image>"}, {"role": "assistant", "content": "No."}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "image": "2.jpg"}, {"type": "text", "text": "What?"}]},
                  {"role": "assistant", "content": "Grass."}]},
]  # fmt: skip


@pytest.mark.parametrize("name", ["llava.json", "chat.jsonl", "lines.json"])
def test_conversations_about_one_picture_are_loaded(name: str, tmp_path: Path) -> None:
    source = write(tmp_path, ONE_PICTURE, name)
    if name == "lines.json":
        (tmp_path / name).write_text("\r\n\r\n".join(map(json.dumps, ONE_PICTURE)))
    report = import_source(source, tmp_path / "out")
    assert (report.prepared.samples, report.renamed) == (4, 1)
    samples = load(tmp_path / "out", 4)
    assert {type(sample).__name__ for sample in samples.values()} == {"ConversationSample"}
    contents = {key: [turn.content for turn in sample.turns] for key, sample in samples.items()}
    assert contents == {
        "7": [["Hello?"], ["Yes."]],
        "7-2": [[0, "\nA cat?"], ["Yes."]],
        "a/b_c": [["Be brief."], ["A dog? ", 0], ["No."]],
        "000000003": [[0, "What?"], ["Grass."]],
    }
    pictures = {key: [red(image) for image in sample.images or []] for key, sample in samples.items()}
    assert {key: len(found) for key, found in pictures.items()} == {"7": 0, "7-2": 1, "a/b_c": 1, "000000003": 1}
    assert pictures["a/b_c"] == [180]
    document = rows_of(source)[2].parts["json"]
    assert isinstance(document, ValueRef)
    assert json.loads(document.data) == ONE_PICTURE[2]


def test_conversations_about_several_pictures_are_recognised_by_prepare(tmp_path: Path) -> None:
    documents = [
        {"id": "two", "images": ["1.jpg", "3.png"], "conversations": turns("<image> or <image>?")},
        {"id": "one", "image": "2.jpg", "conversations": turns("<image>?")},
        {"id": "none", "conversations": turns("Hm?")},
    ]
    source = write(tmp_path, documents)
    assert [sorted(row.parts) for row in rows_of(source)] == [["0.jpg", "1.png", "json"], ["0.jpg", "json"], ["json"]]
    import_source(source, tmp_path / "out")
    samples = load(tmp_path / "out", 3)
    assert {type(sample).__name__ for sample in samples.values()} == {"ConversationSample"}
    assert samples["two"].turns[0].content == [0, " or ", 1, "?"]
    assert red(samples["two"].images[1]) == 180
    assert [len(samples[key].images or []) for key in ("two", "one", "none")] == [2, 1, 0]


def test_text_alone_is_recognised_by_prepare(tmp_path: Path) -> None:
    source = write(tmp_path, [{"conversations": turns("Hello?")}])
    import_source(source, tmp_path / "out")
    assert type(load(tmp_path / "out", 1)["000000000"]).__name__ == "ConversationSample"


def test_what_does_not_fit_is_listed(tmp_path: Path) -> None:
    documents = [
        {"image": "1.jpg", "conversations": turns("<image><image>")},
        {"image": 5, "conversations": turns("<image>")},
        {"image": "1.jpg"},
        "text",
        {"image": "1.jpg", "conversations": []},
    ]
    assert faults_of(rows_of(write(tmp_path, documents))) == {
        "llava.json, element 0": "found 2 places of images (<image>), expected 1, one for each",
        "llava.json, element 1": "expected a path as 'image', found int",
        "llava.json, element 2": "expected a conversation under conversations or messages or conversation, found image",
        "llava.json, element 3": "expected `object`, got `str`",
        "llava.json, element 4": "found 1 image, and neither a place for them nor a turn of the user",
    }


def test_a_damaged_line_fails_alone(tmp_path: Path) -> None:
    source = write(tmp_path, ONE_PICTURE, "a.jsonl")
    path = tmp_path / "a.jsonl"
    lines = path.read_bytes().splitlines()
    path.write_bytes(
        b"\xef\xbb\xbf" + b"\n".join([lines[0], b"", b'{"id": 1', b'{"id": "\xff", "messages": []}', *lines[1:]])
    )
    rows = rows_of(source)
    faults = faults_of(rows)
    assert [*faults] == ["a.jsonl, line 3", "a.jsonl, line 4"]
    assert "truncated" in faults["a.jsonl, line 3"]
    assert "invalid start byte" in faults["a.jsonl, line 4"]
    assert rows[3].origin == "a.jsonl, line 5"
    assert len(rows) == 6


def test_pictures_may_be_urls(tmp_path: Path) -> None:
    picture = write_picture(tmp_path / "x y.jpg").read_bytes()
    data = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    urls = ["https://x.org/a.webp?s=1", (tmp_path / "x y.jpg").as_uri(), data]
    documents = [
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]} for url in urls
    ]
    first, second, third = rows_of(write(tmp_path, documents))
    assert first.parts["webp"] == UrlRef(b"https://x.org/a.webp?s=1")
    assert isinstance(second.parts["jpg"], FileRef)
    assert second.parts["jpg"].path == str(tmp_path / "x y.jpg").encode()
    assert third.parts["png"] == ValueRef(picture)
    broken = write(tmp_path, [{"image": "data:image/png;base64,$", "conversations": turns("<image>")}])
    assert "damaged" in faults_of(rows_of(broken))["llava.json, element 0"]


def test_an_object_may_wrap_the_list(tmp_path: Path) -> None:
    source = write(tmp_path, [], "a.json")
    (tmp_path / "a.json").write_text(json.dumps({"version": 1, "data": ONE_PICTURE}))
    assert len(rows_of(source)) == 4
    (tmp_path / "a.json").write_text(json.dumps({"version": 1, "rows": ONE_PICTURE}))
    with pytest.raises(ConfigError, match="expected a list or an object with data, found version, rows"):
        rows_of(source)


def test_videos_and_sounds_are_parts_with_fields_of_their_own(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.webm", "c.wav"):
        (tmp_path / name).write_bytes(name.encode())
    documents = [
        {"video": "a.mp4", "conversations": turns("<image>\nWhat happens?")},  # as in LLaVA-Video
        {"videos": ["b.webm"], "conversations": turns("<video>What?")},
        {"messages": [{"role": "user", "content": [{"type": "audio", "audio": "c.wav"}, {"text": "Who?"}]}]},
        {"image": None, "video": "", "conversations": turns("Hm?")},
    ]
    source = write(tmp_path, documents)
    assert [sorted(row.parts) for row in rows_of(source)] == [
        ["json", "mp4"],
        ["json", "webm"],
        ["json", "wav"],
        ["json"],
    ]
    import_source(source, tmp_path / "out")
    assert field_map_of(tmp_path / "out") == {"turns": "json", "videos": "mp4,webm", "audios": "wav"}
    folder = folder_at(str(tmp_path / "out"))
    assert [folder.read_parts(number).get("mp4") for number in range(2)] == [b"a.mp4", None]


def test_pictures_may_be_null_empty_or_base64(tmp_path: Path) -> None:
    encoded = base64.b64encode(write_picture(tmp_path / "x.png").read_bytes()).decode()
    item = {"type": "image", "text": None, "image": encoded}
    documents = [
        {"images": ["1.jpg", None, ""], "conversations": turns("<image>?")},
        {"image": "", "conversations": turns("Text alone?")},
        {"messages": [{"role": "user", "content": [item, {"type": "text", "text": "?", "image": None}]}]},
    ]
    rows = rows_of(write(tmp_path, documents))
    assert [sorted(row.parts) for row in rows] == [["jpg", "json"], ["json"], ["json", "png"]]
    assert not faults_of(rows)


def test_a_damaged_first_element_fails_alone(tmp_path: Path) -> None:
    for first in ({"image": "1.jpg"}, "text", {"image": "1.jpg", "conversations": turns("<image><image>")}):
        for name in ("first.json", "first.jsonl"):
            write(tmp_path, [first, *ONE_PICTURE], name)
            source = open_source(str(tmp_path / name), kind=None, options=SourceOptions())
            assert source.kind == "conversations"
            [origin] = faults_of(rows_of(source))
            assert origin in ("first.json, element 0", "first.jsonl, line 1")
