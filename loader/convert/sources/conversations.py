"""Conversations about pictures in the JSON of LLaVA, ShareGPT or ChatML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import SampleError
from ...format.documents.conversation import CONVERSATION_KEYS, conversation_turns
from ..annotations.element_rows import document_key, fault_row
from ..annotations.json_elements import decode, read_elements
from ..annotations.picture_files import find_picture_folder, picture_extension, picture_ref
from ..annotations.split_names import split_of_file, subset_of_file
from ..rows.row import PartRef, Row, ValueRef
from .source import Listing, SampleProposal, Source

__all__ = ["ConversationsSource"]

_PICTURE_KEYS = ("images", "image")
_ITEM_KEYS = ("image", "image_url", "url", "path")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationsSource(Source):
    """The conversations of a JSON list or JSONL file, each with its pictures.

    A document has the conversation as ``conversations`` or ``messages``, and the paths of its pictures as ``image`` or
    ``images``, or in the items of its messages. It is the part ``json``, unchanged; the picture is ``jpg``, or the
    pictures are ``0.jpg``, ``1.jpg`` … if any document has several.

    Attributes:
        path: The file.
        root: Folder of the pictures; None finds it near the file.
    """

    path: str
    root: str | None = None
    kind: str = "conversations"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - files are read in any order
        """Yield the samples.

        Raises:
            ConfigError: The file has no list, or the pictures cannot be found.
            FormatError: It is not valid JSON.
            StorageError: It cannot be read.
        """
        names = ([path] for paths in self._pictures() for path in paths)
        folder, _ = find_picture_folder(self.path, self.root, names, subset=subset_of_file(self.path))
        is_numbered = self._has_several()
        split = split_of_file(self.path)
        for number, element in enumerate(read_elements(self.path)):
            try:
                document = decode(element, dict[str, Any])
                paths = _pictures_of(document)
                _check(document, len(paths))
                parts: dict[str, PartRef] = {}
                for position, path in enumerate(paths):
                    extension = picture_extension(path)
                    parts[f"{position}.{extension}" if is_numbered else extension] = picture_ref(folder, path)
                parts["json"] = ValueRef(bytes(element.data))
                yield Row(key=document_key(document, number), parts=parts, origin=element.place, split=split)
            except SampleError as error:
                yield fault_row(element, error, split=split)

    def proposal(self) -> SampleProposal | None:
        """Return the type for conversations about one picture; None where the parts tell it."""
        if self._has_several():
            return None
        extensions = dict.fromkeys(picture_extension(path) for paths in self._pictures() for path in paths)
        if not extensions:
            return None
        return SampleProposal(
            sample_type="ConversationSample", field_map={"turns": "json", "images": ",".join(extensions)}
        )

    def _has_several(self) -> bool:
        return any(len(paths) > 1 for paths in self._pictures())

    def _pictures(self) -> Iterator[list[str]]:
        for element in read_elements(self.path):
            try:
                yield _pictures_of(decode(element, dict[str, Any]))
            except SampleError:
                continue  # its row fails


def _pictures_of(document: Mapping[str, Any]) -> list[str]:
    """Return the paths of the pictures of a document.

    Raises:
        SampleError: A picture is no path.
    """
    for key in _PICTURE_KEYS:
        if document.get(key):
            value = document[key]
            return [_path(item, key) for item in (value if isinstance(value, list) else [value])]
    paths = []
    messages = next((document[key] for key in CONVERSATION_KEYS if key in document), None)
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content", message.get("value")) if isinstance(message, dict) else None
        for item in content if isinstance(content, list) else ():
            found = next((key for key in _ITEM_KEYS if key in item), None) if isinstance(item, dict) else None
            if found is not None:
                paths.append(_path(item[found], found))
    return paths


def _path(value: object, key: str) -> str:
    if isinstance(value, dict):
        value = next((value[inner] for inner in ("url", "path") if inner in value), value)
    if not isinstance(value, str):
        raise SampleError(f"expected a path as {key!r}, found {type(value).__name__}")
    return value


def _check(document: Mapping[str, Any], images: int) -> None:
    try:
        turns = conversation_turns(document, images=images)
    except ValueError as error:
        raise SampleError(str(error)) from error
    if not turns:
        raise SampleError("the conversation has no messages")
