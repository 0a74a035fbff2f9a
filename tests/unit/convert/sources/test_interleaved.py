"""Documents of texts and pictures keep their order, from the layouts of MMC4, OBELICS and lists of items."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from loader.convert.rows.row import ValueRef
from loader.convert.sources.interleaved_files import InterleavedSource
from tests.unit.convert.sources.imported import faults_of, import_source, load, red, rows_of, write_picture

MMC4 = {
    "url": "https://x.org",
    "text_list": ["First.", "Then see photo.jpg", "Last."],
    "image_info": [
        {"image_name": "b.png", "matched_text_index": 1, "matched_sim": 0.3},
        {"image_name": "a.png", "matched_text_index": 0},
        {"image_name": "c.png", "matched_text_index": 1},
    ],
    "similarity_matrix": [[0.1]],
}
OBELICS = {"texts": ["First.", None, "Last."], "images": [None, "b.png", None], "metadata": "[]"}
PLACED = {"id": "p", "text": "<image>Now <image>", "images": ["a.png", "c.png"]}
ITEMS = {"id": "i", "content": [{"type": "image", "image": "c.png"}, {"type": "text", "text": "A"}, {"text": "B"}]}
PLAIN = ["A", "b.png", "Is this b.png", {"image_url": {"url": "a.png"}}]
EXPECTED: list[tuple[Any, list[Any]]] = [
    (MMC4, [50, "First.", 100, 150, "Then see photo.jpg", "Last."]),
    (OBELICS, ["First.", 100, "Last."]),
    (PLACED, [50, "Now ", 150]),
    (ITEMS, [150, "A", "B"]),
    (PLAIN, ["A", 100, "Is this b.png", 50]),
]


ANY_LAYOUT = (
    "expected text_list and image_info, texts and images, or one of sequence, content, interleaved, items, document;"
    " found title"
)


DAMAGED = (
    "image_base64 of image_info[0] is damaged: Invalid base64-encoded string: number of data characters (5) cannot be 1"
    " more than a multiple of 4"
)


def write(folder: Path, *documents: Any, name: str = "documents.jsonl") -> InterleavedSource:
    for number, letter in enumerate("abc"):
        write_picture(folder / f"images/{letter}.png", 50 * (number + 1))
    (folder / name).write_text("\n".join(map(json.dumps, documents)) if name.endswith("l") else json.dumps(documents))
    return InterleavedSource(path=str(folder / name))


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.json"])
def test_documents_are_loaded_in_reading_order(name: str, tmp_path: Path) -> None:
    source = write(tmp_path, *(document for document, _ in EXPECTED), name=name)
    assert import_source(source, tmp_path / "out").failed == 0
    samples = load(tmp_path / "out", len(EXPECTED))
    assert {type(sample).__name__ for sample in samples.values()} == {"InterleavedSample"}
    found = {
        key: [item if isinstance(item, str) else red(item) for item in sample.sequence]
        for key, sample in samples.items()
    }
    keys = ["000000000", "000000001", "p", "i", "000000004"]
    assert found == {key: sequence for key, (_, sequence) in zip(keys, EXPECTED, strict=True)}


@pytest.mark.parametrize("document", [document for document, _ in EXPECTED])
def test_each_layout_is_recognised_by_prepare(document: Any, tmp_path: Path) -> None:
    import_source(write(tmp_path, document), tmp_path / "out")
    assert "InterleavedSample" in (tmp_path / "out/.nv-meta/dataset.yaml").read_text()
    assert "the order of the two lists" in (tmp_path / "out/.nv-meta/sample_loader.py").read_text()


def test_the_other_values_of_a_document_stay(tmp_path: Path) -> None:
    [row] = rows_of(write(tmp_path, MMC4))
    assert [*row.parts] == ["0.png", "1.png", "2.png", "json"]
    part = row.parts["json"]
    assert isinstance(part, ValueRef)
    assert json.loads(part.data) == {
        "url": "https://x.org",
        "image_info": MMC4["image_info"],
        "similarity_matrix": [[0.1]],
        "texts": [None, "First.", None, None, "Then see photo.jpg", "Last."],
        "images": ["0.png", None, "1.png", "2.png", None, None],
    }


def test_pictures_in_the_document_become_parts_alone(tmp_path: Path) -> None:
    data = write_picture(tmp_path / "x.png", 200).read_bytes()
    text = base64.b64encode(data).decode()
    documents = [
        {
            "text_list": ["First.", "Last."],
            "image_info": [
                {"image_name": "gone.jpg", "image_base64": text, "matched_text_index": 1, "matched_sim": 0.3},
                {"image_name": "a.png", "matched_text_index": 0},
            ],
        },
        {"texts": [None, "Last.", None], "images": [{"bytes": text, "path": None}, None, {"path": "b.png"}]},
        {"text": "<image>Now", "images": [f"data:image/png;base64,{text}"]},
    ]
    source = write(tmp_path, *documents)
    rows = rows_of(source)
    assert [[*row.parts] for row in rows] == [["0.png", "1.png", "json"], ["0.png", "1.png", "json"], ["0.png", "json"]]
    [part] = (part for part in rows[0].parts.values() if isinstance(part, ValueRef) and part.data.startswith(b"{"))
    assert json.loads(part.data)["image_info"] == [
        {"image_name": "gone.jpg", "matched_text_index": 1, "matched_sim": 0.3},
        {"image_name": "a.png", "matched_text_index": 0},
    ]
    import_source(source, tmp_path / "out")
    samples = load(tmp_path / "out", 3)
    assert [[item if isinstance(item, str) else red(item) for item in s.sequence] for s in samples.values()] == [
        [50, "First.", 200, "Last."],
        [200, "Last.", 100],
        [200, "Now"],
    ]


def test_a_picture_that_was_not_downloaded_fails_its_document(tmp_path: Path) -> None:
    gone = {"text_list": ["a"], "image_info": [{"image_name": "gone.jpg", "matched_text_index": 0}]}
    report = import_source(write(tmp_path, gone, MMC4), tmp_path / "out", max_failures=1)
    assert [(failure.origin, failure.code) for failure in report.failures] == [("documents.jsonl, line 1", "F102")]
    assert report.account.to_document()["failed"][0]["reason"] == "F102"


def test_what_does_not_fit_is_listed(tmp_path: Path) -> None:
    documents = [
        {"text_list": ["a"], "image_info": [{"image_name": "a.png", "matched_text_index": 1}]},
        {"text_list": ["a"], "image_info": [{"matched_text_index": 0}]},
        {"text_list": ["a", "b"], "image_info": [{"image_name": "a.png", "matched_text_index": None}]},
        {"text_list": ["a"], "image_info": [{"matched_text_index": 0, "image_base64": "abcde"}]},
        {"text_list": ["a"], "image_info": [{"matched_text_index": 0, "image_base64": "aGVsbG8="}]},
        {"texts": ["a"], "images": []},
        {"text": "<image>", "images": ["a.png", "b.png"]},
        {"items": ["a", 5]},
        {"items": []},
        {"title": "a"},
        7,
    ]
    faults = faults_of(rows_of(write(tmp_path, OBELICS, *documents)))
    assert [*faults] == [f"documents.jsonl, line {number}" for number in range(2, 13)]
    assert [*faults.values()] == [
        "image_info[0] matches text 1 of 1",
        "image_info[0] has neither the name of a picture nor its contents",
        "image_info[0] has no matched_text_index, so its place among the 2 texts is unknown",
        DAMAGED,
        "expected a picture in base64 as image_base64 of image_info[0], found a text",
        "there are 1 text and 0 images; expected lists of one length",
        "the text has 1 place of images (<image>), and the document 2 images",
        "item 1 is neither a text nor the path of a picture",
        "the document has neither texts nor pictures",
        ANY_LAYOUT,
        "expected `object | array`, got `int`",
    ]
