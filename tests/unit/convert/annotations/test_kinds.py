"""The kind of annotations is found in the beginning of their file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loader.convert.annotations.kinds import annotation_kind

TURNS = [{"from": "human", "value": "Hi"}]
IMAGE = {"id": 1, "file_name": "1.jpg"}


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"info": {}, "licenses": [], "images": [IMAGE], "annotations": [{"image_id": 1, "caption": "a"}]}, "coco"),
        ({"annotations": [{"image_id": 1, "bbox": []}], "images": [IMAGE]}, "coco"),
        ({"images": [{**IMAGE, "padding": "x" * 100}] * 20_000, "annotations": [{"image_id": 1}]}, "coco"),
        ({"data_type": "mscoco", "questions": [{"question": "?", "image_id": 1}]}, "vqa"),
        ({"data": [{"question": "?", "image_id": "x", "answers": ["a"]}]}, "vqa"),
        ([{"image": "1.jpg", "question": "?", "answer": "a"}], "vqa"),
        ([{"id": 1, "image": "1.jpg", "conversations": TURNS}] * 3, "conversations"),
        ([{"messages": [{"role": "user", "content": "Hi"}]}], "conversations"),
        ([{"text_list": ["a"], "image_info": []}], "interleaved"),
        ([{"texts": ["a", None], "images": [None, "a.jpg"]}], "interleaved"),
        ([{"text": "<image> a", "images": ["a.jpg"]}], "interleaved"),
        ([["a", {"type": "image", "image": "a.jpg"}]], "interleaved"),
        ([{"image": "1.jpg", "caption": "a"}], None),
        ([{"question": "?", "answer": "a"}], None),
        ({"images": [{"url": "x"}], "settings": 1}, None),
        ([], None),
        ({}, None),
        ("text", None),
        ([5], None),
    ],
)
def test_kinds(document: Any, kind: str | None, tmp_path: Path) -> None:
    for indent in (None, 2):
        path = tmp_path / f"{indent}.json"
        path.write_text("\ufeff" + json.dumps(document, indent=indent))
        assert annotation_kind(str(path)) == kind
    if isinstance(document, list):
        path = tmp_path / "a.jsonl"
        path.write_text("\n".join(map(json.dumps, document)))
        expected = None if document and isinstance(document[0], list) else kind
        assert annotation_kind(str(path)) in (kind, expected)


def test_other_files_are_of_no_kind(tmp_path: Path) -> None:
    for name, data in (("a.txt", b'[{"conversations": 1}]'), ("a.json", b"\xff\x00{"), ("b.json", b"")):
        (tmp_path / name).write_bytes(data)
        assert annotation_kind(str(tmp_path / name)) is None
    assert annotation_kind(str(tmp_path / "missing.json")) is None
