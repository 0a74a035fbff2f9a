"""Questions about pictures: the two files of VQA v2, and lists with pictures, questions and answers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...errors import SampleError
from ..annotations.element_rows import document_key, fault_row
from ..annotations.json_elements import Element, decode, read_elements, read_list, read_object
from ..annotations.picture_files import find_picture_folder, picture_extension, picture_ref
from ..annotations.split_names import split_of_file, subset_of_file
from ..rows.file_access import FileAccess
from ..rows.row import Row, ValueRef
from ..tables.named_files import NamedFiles
from .source import Listing, SampleProposal, Source

_PICTURE_KEYS = ("image", "image_path", "img_path", "img", "file_name", "image_id")
_ANSWER_KEYS = ("answers", "answer")
_TASK = re.compile(r"(OpenEnded|MultipleChoice)_")  # the annotations serve both tasks


class _Answered(msgspec.Struct):
    question_id: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class VqaSource(Source):
    """The questions of a file, each with its picture and the part ``json``, whose ``answers`` are a list of texts.

    Attributes:
        path: The questions of VQA v2, or a list of objects with ``image``, ``question`` and ``answer`` or ``answers``.
        annotations: The answers of VQA v2; None finds them by the name of the questions.
        root: Folder of the pictures; None finds it near the file.
        access: Decides which files paths may name.
    """

    path: str
    annotations: str | None = None
    root: str | None = None
    access: FileAccess = field(default_factory=FileAccess, repr=False, compare=False)
    kind: str = "vqa"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - files are read in any order
        """Yield the samples, then the answers that belong to no question.

        Raises:
            ConfigError: The file has no questions, or the pictures cannot be found.
            FormatError: It is not valid JSON.
            StorageError: It cannot be read.
        """
        answers = self._answers()
        left = set(answers)
        files, position = self._picture_folder()
        subset, split = subset_of_file(self.path), split_of_file(self.path)
        for number, element in enumerate(self._questions()):
            try:
                document = decode(element, dict[str, Any])
                if answers:
                    left.discard(document.get("question_id"))
                    _add_answers(document, answers)
                _normalise(document)
                name = _picture_names(document, subset)[position]
                yield Row(
                    key=document_key(document, number),
                    parts={
                        picture_extension(name): picture_ref(files, name),
                        "json": ValueRef(msgspec.json.encode(document)),
                    },
                    origin=element.place,
                    split=split,
                )
            except SampleError as error:
                yield fault_row(element, error, split=split)
        for identifier, element in answers.items():
            if identifier in left:
                yield fault_row(element, f"no question has the id {identifier!r}", split=split)

    def proposal(self) -> SampleProposal:
        """Return the type for questions."""
        _, position = self._picture_folder()
        extensions = dict.fromkeys(picture_extension(names[position]) for names in self._all_picture_names())
        field_map = {"image": ",".join(extensions), "context": "json[question]"}
        if self._annotations_file() is not None or self._has_answers():
            field_map["answers"] = "json[answers]"
        return SampleProposal(sample_type="VQASample", field_map=field_map)

    def _questions(self) -> Iterator[Element]:
        return read_elements(self.path, inside=("questions", "data"))

    def _annotations_file(self) -> str | None:
        if self.annotations is not None:
            return self.annotations
        folder, name = os.path.split(self.path)
        found = os.path.join(folder, _TASK.sub("", name).replace("questions", "annotations"))
        return found if found != self.path and os.path.exists(found) else None

    def _answers(self) -> dict[int | str | None, Element]:
        path = self._annotations_file()
        if path is None:
            return {}
        elements = read_list(read_object(path), "annotations", path=path)
        return {decode(element, _Answered).question_id: element for element in elements}

    def _has_answers(self) -> bool:
        for element in self._questions():
            try:
                document = decode(element, dict[str, Any])
            except SampleError:
                continue  # its row fails
            if any(key in document for key in _ANSWER_KEYS):
                return True
        return False

    def _all_picture_names(self) -> Iterator[tuple[str, ...]]:
        subset = subset_of_file(self.path)
        for element in self._questions():
            try:
                yield _picture_names(decode(element, dict[str, Any]), subset)
            except SampleError:
                continue  # its row fails

    def _picture_folder(self) -> tuple[NamedFiles, int]:
        return find_picture_folder(
            self.path, self._all_picture_names(), root=self.root, access=self.access, subset=subset_of_file(self.path)
        )


def _add_answers(document: dict[str, Any], answers: Mapping[int | str | None, Element]) -> None:
    identifier = document.get("question_id")
    if identifier not in answers:
        raise SampleError(f"no answers are for the question {identifier!r}")
    for name, value in decode(answers[identifier], dict[str, Any]).items():
        document.setdefault(name, value)


def _normalise(document: dict[str, Any]) -> None:
    """Check the question, and write the answers as a list of texts."""
    if not isinstance(document.get("question"), str):
        raise SampleError("has no text as 'question'")
    key = next((key for key in _ANSWER_KEYS if document.get(key) is not None), None)
    if key is not None:
        value = document.pop(key)
        document["answers"] = [_text(answer) for answer in (value if isinstance(value, list) else [value])]


def _text(answer: object) -> str:
    value = answer.get("answer", answer.get("text")) if isinstance(answer, dict) else answer
    if isinstance(value, bool | int | float):
        return msgspec.json.encode(value).decode()
    if not isinstance(value, str):
        raise SampleError(f"expected text as an answer, found {type(value).__name__}")
    return value


def _picture_names(document: Mapping[str, Any], subset: str) -> tuple[str, ...]:
    """Return the names that the picture of a question may have."""
    key = next((key for key in _PICTURE_KEYS if document.get(key) is not None), None)
    if key is None:
        raise SampleError(f"has no picture: none of {', '.join(_PICTURE_KEYS)}")
    value = document[key]
    if not isinstance(value, str | int):
        raise SampleError(f"expected a path or number as {key!r}, found {type(value).__name__}")
    text = str(value)
    padded = text.zfill(12)
    return (text, f"COCO_{subset}_{padded}.jpg", f"{padded}.jpg", f"{text}.jpg", f"{padded}.png", f"{text}.png")
