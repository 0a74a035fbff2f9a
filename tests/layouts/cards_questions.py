"""Public sets of questions about pictures, as their cards describe the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.layouts.layout import card, write

QUESTIONS = {"train2014": (9, 25, 30), "val2014": (42, 73)}


@card(
    samples={
        f"{image}00{n}": f"{split.removesuffix('2014')}: jpg json"
        for split, images in QUESTIONS.items()
        for image in images
        for n in range(2)
    },
    holds={"25001": ("Is 25 round?", "no 25", '"answer_confidence":["yes"]')},
    sample_type="VQASample",
)
def vqa_v2(folder: Path) -> None:
    for split, images in QUESTIONS.items():
        write(folder, [f"{split}/COCO_{split}_{image:012d}.jpg" for image in images])
        about = {
            "info": {"year": 2017, "version": "2.0"},
            "data_type": "mscoco",
            "data_subtype": split,
            "license": {"name": "CC"},
        }
        numbers = [(image, n) for image in images for n in range(2)]
        questions = [{"image_id": i, "question": f"Is {i} round?", "question_id": i * 1000 + n} for i, n in numbers]
        answers = [
            {
                "question_type": "is",
                "multiple_choice_answer": "no",
                "answers": [{"answer": f"no {i}", "answer_confidence": "yes", "answer_id": 1}],
                "image_id": i,
                "answer_type": "yes/no",
                "question_id": i * 1000 + n,
            }
            for i, n in numbers
        ]
        of_questions = {**about, "task_type": "Open-Ended", "questions": questions}
        write(folder, {f"v2_OpenEnded_mscoco_{split}_questions.json": json.dumps(of_questions)})
        write(folder, {f"v2_mscoco_{split}_annotations.json": json.dumps({**about, "annotations": answers})})


WIZ = {"train": 6, "val": 3, "test": 3}


@card(
    samples={
        f"{n:09d}{'' if split == 'train' else '-2' if split == 'val' else '-3'} | {split}/{n:09d}": f"{split}: jpg json"
        for split, count in WIZ.items()
        for n in range(count)
    },
    holds={"000000002 | train/000000002": ('"answers":["nokia 2","phone"]', '"answer_confidence":["yes","maybe"]')},
    sample_type="VQASample",
)
def vizwiz(folder: Path) -> None:
    for split, count in WIZ.items():
        names = [f"VizWiz_{split}_{n:08d}.jpg" for n in range(count)]
        write(folder, [f"{split}/{name}" for name in names])
        rows: list[dict[str, Any]] = [
            {"image": name, "question": f"What is {split} {n}?"} for n, name in enumerate(names)
        ]
        for n, row in enumerate(rows if split != "test" else ()):
            answers = [("yes", f"nokia {n}"), ("maybe", "phone")]
            row["answers"] = [{"answer_confidence": sure, "answer": text} for sure, text in answers]
            row |= {"answer_type": "other", "answerable": 1}
        write(folder, {f"Annotations/{split}.json": json.dumps(rows)})


BOOKS = [f"{n:09d}{'X' if n % 2 else n % 9}" for n in (76118327, 61233706, 44703019, 89042218, 37549817)]


@card(
    samples={f"{name} | images/{name}": "jpg json" for name in BOOKS},
    holds={f"{name} | images/{name}": f"The Book {name}" for name in BOOKS},
    sample_type="CrudeSample|ImageSample|VQASample",
)
def ocr_vqa(folder: Path) -> None:
    write(folder, [f"images/{name}.jpg" for name in BOOKS])
    document = {
        name: {
            "authorName": "An Author",
            "genre": "Calendars",
            "imageURL": f"http://ecx.images-amazon.com/images/I/51W{n}IUwh.jpg",
            "title": f"The Book {name}",
            "questions": ["Who wrote this book?", "What is the title of this book?"],
            "answers": ["An Author", f"The Book {name}"],
            "split": 1 + n % 3,
        }
        for n, name in enumerate(BOOKS)
    }
    write(folder, {"dataset.json": json.dumps(document)})


ASKED = {"train": range(6), "val": range(6, 9)}


@card(
    samples={
        f"{17000 + n:08d} | images/{2354780 + n // 2}{'-2' * (n % 2)}": f"{split}: jpg json"
        for split, numbers in ASKED.items()
        for n in numbers
    },
    holds={"00017003 | images/2354781-2": ("the sky 3", '"imageId":"2354781"', '"answers":["yes"]')},
    sample_type="VQASample",
)
def gqa(folder: Path) -> None:
    write(folder, [f"images/{2354780 + n}.jpg" for n in range(5)])
    for split, numbers in ASKED.items():
        questions = {
            f"{17000 + n:08d}": {
                "semantic": [{"operation": "select", "dependencies": [], "argument": "sky (2486325)"}],
                "entailed": [],
                "equivalent": [f"{17000 + n:08d}"],
                "question": f"Is the sky {n} dark?",
                "imageId": str(2354780 + n // 2),
                "isBalanced": True,
                "groups": {"global": None, "local": "06-sky_dark"},
                "answer": "yes",
                "fullAnswer": f"Yes, the sky {n} is dark.",
            }
            for n in numbers
        }
        write(folder, {f"{split}_balanced_questions.json": json.dumps(questions)})


@card(
    samples={f"{34600 + n}": f"{'train' if n < 6 else 'val'}: jpg json" for n in range(8)},
    holds={"34607": "nokia 7"},
    sample_type="VQASample",
)
def textvqa(folder: Path) -> None:
    for split, numbers in (("train", range(6)), ("val", range(6, 8))):
        names = {n: f"{0x54C91397 + n // 2:016x}" for n in numbers}
        write(folder, [f"train_images/{name}.jpg" for name in names.values()])
        data = [
            {
                "question": "what is the brand?",
                "image_id": name,
                "image_classes": ["Belt"],
                "flickr_original_url": f"https://farm4.staticflickr.com/2911/{n}_o.jpg",
                "image_width": 8,
                "answers": [f"nokia {n}"] * 3,
                "question_tokens": ["what", "is"],
                "question_id": 34600 + n,
                "set_name": split,
            }
            for n, name in names.items()
        ]
        document = {"dataset_type": split, "dataset_name": "textvqa", "dataset_version": "0.5.1", "data": data}
        write(folder, {f"TextVQA_0.5.1_{split}.json": json.dumps(document)})


DOCUMENTS = [f"xnbl{n:04d}_1" for n in range(37, 43)]


@card(
    samples={f"{337 + n}": f"{'train' if n < 4 else 'val'}: json ocr_results.json png" for n in range(6)},
    holds={"338": ("xnbl0038", "lines of xnbl0038_1")},
    sample_type="VQASample",
)
def docvqa(folder: Path) -> None:
    write(folder, [f"documents/{name}.png" for name in DOCUMENTS])
    for name in DOCUMENTS:
        results = {"status": "Succeeded", "recognitionResults": [{"page": 1, "lines": [{"text": f"lines of {name}"}]}]}
        write(folder, {f"ocr_results/{name}.json": json.dumps(results)})
    for split, start, stop in (("train", 0, 4), ("val", 4, 6)):
        data = [
            {
                "questionId": 337 + n,
                "question": f"What is {DOCUMENTS[n][:8]}?",
                "question_types": ["handwritten"],
                "image": f"documents/{DOCUMENTS[n]}.png",
                "docId": 279 + n,
                "ucsf_document_id": DOCUMENTS[n][:8],
                "ucsf_document_page_no": "1",
                "answers": [DOCUMENTS[n][:8]],
                "data_split": split,
            }
            for n in range(start, stop)
        ]
        document = {"dataset_name": "SP-DocVQA", "dataset_split": split, "dataset_version": "1.0", "data": data}
        write(folder, {f"{split}_v1.0.json": json.dumps(document)})
