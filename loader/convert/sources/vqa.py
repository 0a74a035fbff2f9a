"""Questions about pictures with their answers: VQA v2, GQA, TextVQA, DocVQA and alike."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec

from ...errors import SampleError
from ..annotations.json_elements import (
    FIELDS,
    Element,
    ElementList,
    decode,
    document_key,
    fault_row,
    list_in,
    open_lists,
)
from ..annotations.kinds import PICTURE_KEYS
from ..rows.row import Row, ValueRef
from ..tables.split_names import split_of_file
from .source import AnnotationSource, Listing, picture_extension, picture_ref

_ANSWER_KEYS = ("answers", "answer")
_QUESTIONS = ("questions", "data", FIELDS)  # names of the list in an object, or the object itself
_TASK = re.compile(r"(OpenEnded|MultipleChoice)_")  # the annotations serve both tasks


class _Answered(msgspec.Struct):
    question_id: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class VqaSource(AnnotationSource):
    """The questions of a file, each with its picture and the part ``json``, whose ``answers`` are a list of texts.

    Other fields of answers that are objects, such as ``answer_confidence``, are lists of the same length next to it.

    Attributes:
        path: The questions of VQA v2, or a list of objects with ``image``, ``question`` and ``answer`` or ``answers``,
            or an object with such objects by the ids of the questions.
    """

    kind: str = "vqa"

    def rows(self, listing: Listing) -> Iterator[Row]:
        numbers: dict[int | str, int] = {}  # id of a question → number of its answers
        answers: ElementList | tuple[()] = ()
        path = self._annotations_file()
        with open_lists(path) if path is not None else nullcontext() as lists:
            # Find the answers of each question; they are read when they are needed.
            if path is not None and lists is not None:
                answers = list_in(lists, "annotations", path=path)
                numbers = {decode(answer, _Answered).question_id: n for n, answer in enumerate(answers)}
            left = set(numbers)
            files, split = self.named_files(listing), split_of_file(self.path)

            def make(index: int, element: Element) -> Row:
                document, is_lossy = decode(element, dict[str, Any]), element.is_lossy
                if numbers:
                    identifier = document.get("question_id")
                    left.discard(identifier)
                    if identifier not in numbers:
                        raise SampleError(f"the question {identifier!r} has no answers")
                    # The question has precedence over fields of its answers.
                    answer = answers[numbers[identifier]]
                    document |= decode(answer, dict[str, Any]) | document
                    is_lossy |= answer.is_lossy
                _normalise(document)
                name = _picture_of(document)
                picture = {picture_extension(files.name(name)): picture_ref(files, name)}
                parts = {**picture, "json": ValueRef(msgspec.json.encode(document), is_lossy=is_lossy)}
                return Row(key=document_key(document, index), parts=parts, origin=element.place)

            yield from self.element_rows(make, inside=_QUESTIONS)
            # Answers without a question are rows that fail.
            for identifier, index in numbers.items():
                if identifier in left:
                    yield fault_row(answers[index], f"no question has the id {identifier!r}", split=split)

    def _annotations_file(self) -> str | None:
        """Return the answers of VQA v2, found by the name of the questions; None if the questions have them."""
        folder, name = os.path.split(self.path)
        path = os.path.join(folder, _TASK.sub("", name).replace("questions", "annotations"))
        return path if path != self.path and os.path.exists(path) else None


def _normalise(document: dict[str, Any]) -> None:
    if not isinstance(document.get("question"), str):
        raise SampleError("has no text as 'question'")
    key = next((key for key in _ANSWER_KEYS if document.get(key) is not None), None)
    if key is not None:
        value = document.pop(key)
        answers = [
            dict(answer) if isinstance(answer, dict) else {"answer": answer}
            for answer in (value if isinstance(value, list) else [value])
        ]
        document["answers"] = [_take_text(answer) for answer in answers]
        # Other fields of the answers are lists, too.
        for name in dict.fromkeys(name for answer in answers for name in answer):
            document[f"answers.{name}" if name in document else name] = [answer.get(name) for answer in answers]


def _take_text(answer: dict[str, Any]) -> str:
    value = answer.pop("answer" if "answer" in answer else "text", None)
    if isinstance(value, bool | int | float):
        return msgspec.json.encode(value).decode()
    if not isinstance(value, str):
        raise SampleError(f"expected text as an answer, found {type(value).__name__}")
    return value


def _picture_of(document: Mapping[str, Any]) -> str:
    key = next((key for key in PICTURE_KEYS if document.get(key) is not None), None)
    if key is None:
        raise SampleError(f"has no picture: none of {', '.join(PICTURE_KEYS)}")
    if not isinstance(document[key], str | int):
        raise SampleError(f"expected a path or number as {key!r}, found {type(document[key]).__name__}")
    return str(document[key])
