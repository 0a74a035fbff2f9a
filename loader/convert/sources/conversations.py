"""Conversations about pictures, videos and sounds in the JSON of LLaVA, ShareGPT or ChatML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...errors import SampleError
from ...format.documents.conversation import CONVERSATION_KEYS, ITEM_KEYS, conversation_turns, item_media
from ..annotations.element_rows import document_key, fault_row
from ..annotations.json_elements import decode, read_elements
from ..annotations.picture_files import find_picture_folder, media_extension, picture_ref
from ..annotations.split_names import split_of_file, subset_of_file
from ..rows.file_access import FileAccess
from ..rows.row import PartRef, Row, ValueRef
from .source import Listing, SampleProposal, Source

_MEDIA_KEYS = {"image": ("images", "image"), "video": ("videos", "video"), "audio": ("audios", "audio")}
_PATH_KEYS = ("url", "path", "image", "video", "audio", "data")  # of an item, or of the object that it holds
_FIELDS = {"image": "images", "video": "videos", "audio": "audios"}  # of a ConversationSample


class _Medium(NamedTuple):
    """A picture, video or sound that a document names."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationsSource(Source):
    """The conversations of a JSON list or JSONL file, each with its pictures, videos and sounds.

    A document has the conversation as ``conversations`` or ``messages``, and the paths of its media as ``image`` or
    ``images``, ``video`` or ``videos``, ``audio`` or ``audios``, or in the items of its messages; null and an empty
    text stand for none. Media may be URLs, ``data:`` URLs and base64. The document is the part ``json``, unchanged. A
    picture is ``jpg``, or media are ``0.jpg``, ``1.mp4`` … if any document has several of a kind.

    Attributes:
        path: The file.
        root: Folder of the media; None finds it near the file.
        access: Decides which files paths may name.
    """

    path: str
    root: str | None = None
    access: FileAccess = field(default_factory=FileAccess, repr=False, compare=False)
    kind: str = "conversations"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - files are read in any order
        """Yield the samples.

        Raises:
            ConfigError: The file has no list, or the media cannot be found.
            FormatError: It is not valid JSON.
            StorageError: It cannot be read.
        """
        names = ([medium.path] for media in self._media() for medium in media)
        files, _ = find_picture_folder(
            self.path, names, root=self.root, access=self.access, subset=subset_of_file(self.path)
        )
        is_numbered = self._has_several()
        split = split_of_file(self.path)
        for number, element in enumerate(read_elements(self.path)):
            try:
                document = decode(element, dict[str, Any])
                media = _media_of(document)
                _check(document, Counter(medium.kind for medium in media))
                parts: dict[str, PartRef] = {}
                for position, medium in enumerate(media):
                    extension = media_extension(medium.path, medium.kind)
                    parts[f"{position}.{extension}" if is_numbered else extension] = picture_ref(files, medium.path)
                parts["json"] = ValueRef(bytes(element.data))
                yield Row(key=document_key(document, number), parts=parts, origin=element.place, split=split)
            except SampleError as error:
                yield fault_row(element, error, split=split)

    def proposal(self) -> SampleProposal | None:
        """Return the type for conversations about one picture, video or sound; None where the parts tell it."""
        if self._has_several():
            return None
        extensions: dict[str, dict[str, None]] = {kind: {} for kind in _FIELDS}
        for medium in (medium for media in self._media() for medium in media):
            extensions[medium.kind][media_extension(medium.path, medium.kind)] = None
        fields = {_FIELDS[kind]: ",".join(names) for kind, names in extensions.items() if names}
        if not fields:
            return None
        return SampleProposal(sample_type="ConversationSample", field_map={"turns": "json", **fields})

    def _has_several(self) -> bool:
        return any(count > 1 for media in self._media() for count in Counter(one.kind for one in media).values())

    def _media(self) -> Iterator[list[_Medium]]:
        for element in read_elements(self.path):
            try:
                yield _media_of(decode(element, dict[str, Any]))
            except SampleError:
                continue  # its row fails


def _media_of(document: Mapping[str, Any]) -> list[_Medium]:
    """Return the pictures, videos and sounds of a document: those that it lists, else those in its messages.

    Raises:
        SampleError: A medium is no path.
    """
    media: list[_Medium] = []
    inner = [*_item_media(document)]
    for kind, keys in _MEDIA_KEYS.items():
        key = next((key for key in keys if document.get(key)), None)
        if key is None:
            media += [medium for medium in inner if medium.kind == kind]
            continue
        values = document[key] if isinstance(document[key], list) else [document[key]]
        media += [_Medium(kind, _path(value, key)) for value in values if value not in (None, "")]
    return media


def _item_media(document: Mapping[str, Any]) -> Iterator[_Medium]:
    messages = next((document[key] for key in CONVERSATION_KEYS if key in document), None)
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content", message.get("value")) if isinstance(message, dict) else None
        for item in content if isinstance(content, list) else ():
            kind = item_media(item)
            keys = (*ITEM_KEYS.get(kind or "", ()), "url", "path")
            key = next((key for key in keys if item.get(key)), None) if kind is not None else None
            if kind is not None and key is not None:
                yield _Medium(kind, _path(item[key], key))


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
