"""Detect the kind of the annotations in a JSON file by its first bytes."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Literal

from ...errors import EnergonError
from ...format.documents.conversation import CONVERSATION_KEYS, is_conversation
from ...storage import open_parent
from .json_elements import LINE_ENDINGS

AnnotationKind = Literal["coco", "conversations", "interleaved", "vqa"]

_HEAD_BYTES = 1 << 20
_ENDINGS = (".json", *LINE_ENDINGS)
_MAX_ELEMENTS = 20  # that are inspected: one damaged element must not hide the kind of the others
_SPACE = re.compile(r"[\s,]*")
PICTURE_KEYS = ("image", "image_path", "img_path", "img", "file_name", "image_id", "imageId")
"""Fields of a question, the first of which names its picture."""
_decoder = json.JSONDecoder()


def annotation_kind(path: str) -> AnnotationKind | None:
    """Return the kind of the annotations in a JSON or JSONL file; None if it is another file.

    At most the first 1 MiB of the file is read.
    """
    if not path.lower().endswith(_ENDINGS):
        return None
    try:
        storage, name = open_parent(os.path.abspath(path) if "://" not in path else path)
        with storage.open(name) as file:
            data = file.read_at(0, min(_HEAD_BYTES, file.size_bytes))
    except EnergonError:
        return None
    # Decide by the beginning of the document.
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    lists, fields = _first_elements(text)
    kind = _kind(lists, fields)
    # The first element may be damaged: it fails as a row, and the next ones show the kind.
    return kind or next(filter(None, map(_kind_of_element, _later_elements(text))), None)


def _kind(lists: Mapping[str, Any], document: Mapping[str, Any]) -> AnnotationKind | None:
    """Return the kind by the first element of each list of an object, and its other values."""
    # COCO has lists of pictures and annotations that refer to each other by ids.
    image, annotation = lists.get("images"), lists.get("annotations")
    has_name = any(_has(image, "id", key) for key in ("file_name", "coco_url", "flickr_url"))
    if has_name and (annotation is None or _has(annotation, "image_id")):
        return "coco"
    if _has(annotation, "image_id") and (_has(annotation, "caption") or _has(annotation, "bbox")):
        return "coco"
    if _has(lists.get("questions"), "question"):
        return "vqa"
    # So has an object that has them by their ids.
    if not lists and _kind_of_element(next(iter(document.values()), None)) == "vqa":
        return "vqa"
    # Other kinds are lists of documents, or lines.
    return _kind_of_element(lists.get("data")) or _kind_of_element(document)


def _kind_of_element(element: object) -> AnnotationKind | None:
    # A list of items with pictures is a document.
    if isinstance(element, list):
        return "interleaved" if any(_has(item, "image") or _has(item, "image_url") for item in element) else None
    if not isinstance(element, dict):
        return None
    if any(key in element for key in CONVERSATION_KEYS):
        return "conversations" if is_conversation(element) else None
    if _has(element, "question") and any(key in element for key in PICTURE_KEYS):
        return "vqa"
    # Texts line up with the pictures, or have marks for them.
    if isinstance(element.get("images"), list):
        texts, text = element.get("texts"), element.get("text")
        lines_up = isinstance(texts, list) and len(texts) == len(element["images"])
        return "interleaved" if lines_up or (isinstance(text, str) and "<image>" in text) else None
    return "interleaved" if _has(element, "text_list", "image_info") else None


def _has(value: object, *keys: str) -> bool:
    return isinstance(value, dict) and all(key in value for key in keys)


def _first_elements(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the first element of each list, and the other values, of the beginning of an object."""
    lists: dict[str, Any] = {}
    values: dict[str, Any] = {}
    position = _skip(text, 0)
    if not text.startswith("{", position):
        return lists, values
    with suppress(ValueError, RecursionError):  # at the end of the text
        # Walk through the fields, as far as the text goes.
        position = _skip(text, position + 1)
        while text.startswith('"', position):
            key, position = _decoder.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)  # the colon
            # Note the first element of a list even if the list does not end in the text.
            element = _skip(text, position + 1)
            if text.startswith("[", position) and not text.startswith("]", element):
                lists[key], _ = _decoder.raw_decode(text, element)
            values[key], position = _decoder.raw_decode(text, position)
            position = _skip(text, position)
    return lists, values


def _later_elements(text: str) -> Iterator[Any]:
    """Yield the first elements of a list, or the first lines of a JSONL file; damaged lines are passed over."""
    position = _skip(text, 0)
    if not text.startswith("[", position):
        for line in text.split("\n", _MAX_ELEMENTS)[:_MAX_ELEMENTS]:
            with suppress(ValueError, RecursionError):
                yield json.loads(line)
        return
    yield from (element for element, _ in islice(elements_of(text), _MAX_ELEMENTS))


def elements_of(text: str) -> Iterator[tuple[Any, int]]:
    """Yield the elements of a list of JSON, as far as a text has them whole, with their ends; none of other values."""
    position = _skip(text, 0)
    is_list, position = text.startswith("[", position), position + 1
    with suppress(ValueError, RecursionError):
        while is_list:
            element, position = _decoder.raw_decode(text, _skip(text, position))
            yield element, position


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
