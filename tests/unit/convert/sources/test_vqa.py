"""Questions about pictures become samples, from the files of VQA v2 and from plain lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loader.convert.rows.row import ValueRef
from loader.convert.sources.vqa import VqaSource
from tests.unit.convert.sources.imported import (
    faults_of,
    field_map_of,
    import_source,
    load,
    red,
    rows_of,
    write_picture,
)

NAME = "v2_OpenEnded_mscoco_train2014_questions.json"
QUESTIONS = [
    {"image_id": 42, "question": "What colour?", "question_id": 42000},
    {"image_id": 42, "question": "How many?", "question_id": 42001},
    {"image_id": 9, "question": "Why?", "question_id": 9000},
]


def answers(question: int, *texts: str) -> dict[str, Any]:
    return {
        "question_id": question,
        "image_id": question // 1000,
        "question_type": "what",
        "multiple_choice_answer": texts[0],
        "answers": [{"answer": text, "answer_confidence": "yes", "answer_id": 1} for text in texts],
    }


ANSWERS = [answers(9000, "so"), answers(42001, "2", "2", "3"), answers(42000, "red")]


def write_vqa(folder: Path, pattern: str, annotations: list[Any] | None = ANSWERS) -> VqaSource:
    for number in (9, 42):
        write_picture(folder / pattern.format(number), number)
    (folder / NAME).write_text(json.dumps({"data_subtype": "train2014", "questions": QUESTIONS}))
    if annotations is not None:
        (folder / "v2_mscoco_train2014_annotations.json").write_text(json.dumps({"annotations": annotations}))
    return VqaSource(path=str(folder / NAME))


@pytest.mark.parametrize(
    "pattern", ["train2014/COCO_train2014_{:012d}.jpg", "images/{:012d}.jpg", "{}.jpg", "images/train2014/{}.png"]
)
def test_the_files_of_vqa_v2_are_loaded(pattern: str, tmp_path: Path) -> None:
    source = write_vqa(tmp_path, pattern)
    report = import_source(source, tmp_path / "out")
    assert (report.prepared.samples, report.failed) == (3, 0)
    assert field_map_of(tmp_path / "out")["image"] == pattern.rpartition(".")[2]
    samples = load(tmp_path / "out", 3)
    assert {key: (type(sample).__name__, sample.context, sample.answers) for key, sample in samples.items()} == {
        "42000": ("VQASample", "What colour?", ["red"]),
        "42001": ("VQASample", "How many?", ["2", "2", "3"]),
        "9000": ("VQASample", "Why?", ["so"]),
    }
    assert abs(red(samples["42001"].image) - 42) < 4
    assert {row.split for row in rows_of(source)} == {"train"}
    document = rows_of(source)[1].parts["json"]
    assert isinstance(document, ValueRef)
    assert json.loads(document.data)["multiple_choice_answer"] == "2"


def test_questions_without_answers_and_answers_without_questions_are_listed(tmp_path: Path) -> None:
    source = write_vqa(tmp_path, "{}.jpg", [*ANSWERS[1:], answers(5, "no")])
    assert faults_of(rows_of(source)) == {
        f"{NAME}, element 2 of questions": "the question 9000 has no answers",
        "v2_mscoco_train2014_annotations.json, element 2 of annotations": "no question has the id 5",
    }


def test_the_questions_of_a_test_have_no_answers(tmp_path: Path) -> None:
    source = write_vqa(tmp_path, "{}.jpg", None)
    import_source(source, tmp_path / "out")
    assert load(tmp_path / "out", 3)["42000"].answers is None


def test_lists_are_loaded(tmp_path: Path) -> None:
    write_picture(tmp_path / "pictures/a.jpg", 80)
    write_picture(tmp_path / "pictures/b.png", 90)
    path = tmp_path / "questions.jsonl"
    documents = [
        {"image": "a.jpg", "question": "Who?", "answer": "she"},
        {"image": "b.png", "question": "How many?", "answers": [2, "two", {"text": "a pair", "score": 1}], "id": "x"},
        {"image": "b.png", "question": "Open?", "answer": None},
        {"image": "b.png", "answer": "lost"},
        {"question": "Where?"},
        {"image": "b.png", "question": "?", "answers": [[]]},
    ]
    path.write_text("\n".join(map(json.dumps, documents)))
    source = VqaSource(path=str(path), root=str(tmp_path / "pictures"))
    assert faults_of(rows_of(source)) == {
        "questions.jsonl, line 4": "has no text as 'question'",
        "questions.jsonl, line 5": "has no picture: none of image, image_path, img_path, img, file_name, image_id,"
        " imageId",
        "questions.jsonl, line 6": "expected text as an answer, found list",
    }
    import_source(source, tmp_path / "out", max_failures=3)
    field_map = {"image": "png,jpg", "context": "json[question]", "answers": "json[answers]"}
    assert field_map_of(tmp_path / "out") == field_map
    samples = load(tmp_path / "out", 3)
    assert {key: sample.answers for key, sample in samples.items()} == {
        "000000000": ["she"],
        "x": ["2", "two", "a pair"],
        "000000002": None,
    }
    assert red(samples["x"].image) == 90
