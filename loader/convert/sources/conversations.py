"""Conversations about pictures, videos and sounds (LLaVA, ShareGPT, ChatML), and questions about pictures (VQA)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec

from ...errors import SampleError
from ...format.documents.conversation import CONVERSATION_KEYS, ITEM_KEYS, conversation_turns, item_media
from ..annotations.json_elements import (
    Element,
    ElementList,
    decode,
    document_key,
    fault_row,
    list_in,
    open_lists,
    read_elements,
    valid_elements,
)
from ..annotations.kinds import PICTURE_KEYS
from ..rows.row import PartRef, Row, ValueRef
from ..tables.named_files import split_of_file
from .source import AnnotationSource, Listing, media_extension, picture_extension, picture_ref

_MEDIA_KEYS = {"image": ("images", "image"), "video": ("videos", "video"), "audio": ("audios", "audio")}
_PATH_KEYS = ("url", "path", "image", "video", "audio", "data")  # of an item, or of the object that it holds


_Medium = tuple[str, str]
"""The kind of a picture, video or sound that a document names, and its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationsSource(AnnotationSource):
    """The conversations of a JSON list or JSONL file, each with its pictures, videos and sounds.

    A document has the conversation as ``conversations`` or ``messages``, and the paths of its media as ``image`` or
    ``images``, ``video`` or ``videos``, ``audio`` or ``audios``, or in the items of its messages; null and an empty
    text stand for none. Media may be URLs, ``data:`` URLs and base64. The document is the part ``json``, unchanged. A
    picture is ``jpg``, or media are ``0.jpg``, ``1.mp4`` … if any document has several of a kind.
    """

    kind: str = "conversations"

    def rows(self, listing: Listing) -> Iterator[Row]:
        files = self.named_files(listing)
        is_numbered = self._has_several()

        def make(index: int, element: Element) -> Row:
            document = decode(element, dict[str, Any])
            media = _media_of(document)
            _check(document, Counter(kind for kind, _ in media))
            parts: dict[str, PartRef] = {}
            for position, (kind, path) in enumerate(media):
                extension = media_extension(path, kind)
                parts[f"{position}.{extension}" if is_numbered else extension] = picture_ref(files, path)
            parts["json"] = ValueRef(element.plain, is_lossy=element.is_lossy)
            return Row(key=document_key(document, index), parts=parts, origin=element.place)

        yield from self.element_rows(make)

    def _has_several(self) -> bool:
        return any(count > 1 for media in self._media() for count in Counter(kind for kind, _ in media).values())

    def _media(self) -> Iterator[list[_Medium]]:
        return valid_elements(read_elements(self.path), lambda element: _media_of(decode(element, dict[str, Any])))


def _media_of(document: Mapping[str, Any]) -> list[_Medium]:
    """Return the pictures, videos and sounds of a document: those that it lists, else those in its messages."""
    media: list[_Medium] = []
    inner = [*_item_media(document)]
    # A list of the document comes before the items of its messages.
    for kind, keys in _MEDIA_KEYS.items():
        key = next((key for key in keys if document.get(key)), None)
        if key is None:
            media += [medium for medium in inner if medium[0] == kind]
            continue
        values = document[key] if isinstance(document[key], list) else [document[key]]
        media += [(kind, _path(value, key)) for value in values if value not in (None, "")]
    return media


def _item_media(document: Mapping[str, Any]) -> Iterator[_Medium]:
    messages = next((document[key] for key in CONVERSATION_KEYS if key in document), None)
    for message in messages if isinstance(messages, list) else ():
        # Contents are texts, or lists of items with media among them.
        content = message.get("content", message.get("value")) if isinstance(message, dict) else None
        for item in content if isinstance(content, list) else ():
            kind = item_media(item)
            keys = (*ITEM_KEYS.get(kind or "", ()), "url", "path")
            key = next((key for key in keys if item.get(key)), None) if kind is not None else None
            if kind is not None and key is not None:
                yield kind, _path(item[key], key)


def _path(value: object, key: str) -> str:
    if isinstance(value, dict):
        value = next((value[inner] for inner in _PATH_KEYS if value.get(inner)), value)
    if not isinstance(value, str):
        raise SampleError(f"expected a path as {key!r}, found {type(value).__name__}")
    return value


def _check(document: Mapping[str, Any], counts: Mapping[str, int]) -> None:
    try:
        turns = conversation_turns(
            document, images=counts.get("image", 0), videos=counts.get("video", 0), audios=counts.get("audio", 0)
        )
    except ValueError as error:
        raise SampleError(str(error)) from error
    if not turns:
        raise SampleError("the conversation has no messages")


_ANSWER_KEYS = ("answers", "answer")
_QUESTIONS = ("questions", "data")  # names of the list in an object
_TASK = re.compile(r"(OpenEnded|MultipleChoice)_")  # the annotations serve both tasks


class _Answered(msgspec.Struct):
    question_id: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class VqaSource(AnnotationSource):
    """The questions of a file, each with its picture and the part ``json``, whose ``answers`` are a list of texts.

    Attributes:
        path: The questions of VQA v2, or a list of objects with ``image``, ``question`` and ``answer`` or ``answers``.
        annotations: The answers of VQA v2; None finds them by the name of the questions.
    """

    annotations: str | None = None
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
                        raise SampleError(f"no answers are for the question {identifier!r}")
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
        if self.annotations is not None:
            return self.annotations
        folder, name = os.path.split(self.path)
        path = os.path.join(folder, _TASK.sub("", name).replace("questions", "annotations"))
        return path if path != self.path and os.path.exists(path) else None


def _normalise(document: dict[str, Any]) -> None:
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


def _picture_of(document: Mapping[str, Any]) -> str:
    key = next((key for key in PICTURE_KEYS if document.get(key) is not None), None)
    if key is None:
        raise SampleError(f"has no picture: none of {', '.join(PICTURE_KEYS)}")
    if not isinstance(document[key], str | int):
        raise SampleError(f"expected a path or number as {key!r}, found {type(document[key]).__name__}")
    return str(document[key])
