"""Conversations about pictures, videos and sounds (LLaVA, ShareGPT, ChatML, Qwen-VL)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import SampleError
from ...format.documents.conversation import CONVERSATION_KEYS, ITEM_KEYS, PATHS_IN_TEXT, conversation_turns, item_media
from ..annotations.json_elements import Element, decode, document_key, read_elements, valid_elements
from ..rows.row import PartRef, Row, ValueRef
from .source import AnnotationSource, Listing, media_extension, picture_ref

_MEDIA_KEYS = {"image": ("images", "image"), "video": ("videos", "video"), "audio": ("audios", "audio")}
_PATH_KEYS = ("url", "path", "image", "video", "audio", "data")  # of an item, or of the object that it holds


_Medium = tuple[str, str]
"""The kind of a picture, video or sound that a document names, and its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationsSource(AnnotationSource):
    """The conversations of a JSON list or JSONL file, each with its pictures, videos and sounds.

    A document has the conversation as ``conversations`` or ``messages``, and the paths of its media as ``image`` or
    ``images``, ``video`` or ``videos``, ``audio`` or ``audios``, or in the items or texts of its messages; null and an
    empty text stand for none. Media may be URLs, ``data:`` URLs and base64. The document is the part ``json``,
    unchanged. A picture is ``jpg``, or media are ``0.jpg``, ``1.mp4`` … if any document has several of a kind.
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
        """Return True if a document has several media of a kind."""
        media = valid_elements(read_elements(self.path), lambda element: _media_of(decode(element, dict[str, Any])))
        return any(count > 1 for each in media for count in Counter(kind for kind, _ in each).values())


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
        # Contents are texts, which may have paths inside, or lists of items with media among them.
        content = message.get("content", message.get("value")) if isinstance(message, dict) else None
        for tag, path in PATHS_IN_TEXT.findall(content) if isinstance(content, str) else ():
            yield tag.replace("img", "image"), path
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
