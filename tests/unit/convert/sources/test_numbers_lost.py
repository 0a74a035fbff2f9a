"""Annotations with NaN and infinity, which JSON does not have, are counted, wherever null takes their place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from loader.convert.sources.detect import open_source
from loader.convert.tables.source_options import SourceOptions
from tests.imports import imported, picture

COCO = {
    "images": [{"id": n, "file_name": f"{n}.jpg", "width": 20, "height": 10} for n in range(4)],
    "annotations": [{"id": n, "image_id": n, "category_id": 1, "bbox": [0, 0, 4, 4], "score": n} for n in range(4)],
    "categories": [{"id": 1, "name": "cat"}],
}
TURNS = [{"from": "human", "value": "<image> NaN?"}, {"from": "gpt", "value": "Infinity"}]
CONVERSATIONS = [{"id": str(n), "image": f"{n}.jpg", "conversations": TURNS, "score": n} for n in range(4)]
QUESTIONS = [{"image": f"{n}.jpg", "question": "NaN?", "answer": "-Infinity", "score": n} for n in range(4)]
DOCUMENTS = [{"id": n, "texts": ["NaN", None], "images": [None, f"{n}.jpg"], "score": n} for n in range(4)]
BOXES = {"_cls": "Detections", "detections": [{"_cls": "Detection", "label": "NaN", "bounding_box": [0, 0, 1, 1]}]}
SAMPLES = [{"filepath": f"{n}.jpg", "_media_type": "image", "boxes": BOXES, "score": n} for n in range(4)]


def with_lost(value: Any) -> Any:
    """Replace two scores of four."""
    if isinstance(value, dict):
        value = {name: with_lost(each) for name, each in value.items()}
        return value | {"score": {1: math.nan, 2: [-math.inf]}.get(value["score"], 0)} if "score" in value else value
    return [*map(with_lost, value)] if isinstance(value, list) else value


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("coco", COCO),
        ("conversations", CONVERSATIONS),
        ("vqa", QUESTIONS),
        ("interleaved", DOCUMENTS),
        ("jsonl", SAMPLES),
    ],
)
def test_documents_are_counted_and_the_first_is_named(tmp_path: Path, kind: str, document: Any, lines: bool) -> None:
    if lines and kind == "coco":
        pytest.skip("COCO has no lines")
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(picture(number))
    path = tmp_path / f"data.{'jsonl' if lines else 'json'}"
    lost = with_lost(document)
    path.write_text("\n".join(map(json.dumps, lost)) if lines else json.dumps(lost))
    samples, report = imported(open_source(str(path), kind=kind, options=SourceOptions()), tmp_path / "out")
    assert report.changed == {"numbers_lost": 2}
    assert report.first_changed["numbers_lost"].startswith("data.jsonl, line 2" if lines else "data.json, element 1")
    # Texts that look like such numbers are kept.
    texts = [parts["json"].decode() for _, parts in sorted(samples.items())]
    assert kind == "coco" or all("NaN" in text for text in texts)
