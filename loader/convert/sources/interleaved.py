"""Documents of texts and pictures in reading order: MMC4, OBELICS, and lists of items."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from ...accounting.kinds import kind_of_name
from ...errors import SampleError
from ...format.documents.conversation import IMAGE_PLACEHOLDER
from ..annotations.element_rows import document_key, fault_row
from ..annotations.json_elements import Element, decode, read_elements
from ..annotations.picture_files import find_picture_folder, picture_extension, picture_ref
from ..annotations.split_names import split_of_file, subset_of_file
from ..rows.row import PartRef, Row, ValueRef
from .source import Listing, SampleProposal, Source

__all__ = ["InterleavedSource"]

_LIST_KEYS = ("sequence", "content", "interleaved", "items", "document")
_TEXT_KEYS = ("text", "content", "caption")
_ITEM_PICTURE_KEYS = ("image", "image_url", "image_name", "path", "url")


class _Item(NamedTuple):
    """A text, or the path of a picture."""

    text: str | None = None
    picture: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedSource(Source):
    """The documents of a JSON list or JSONL file, each with its pictures.

    The part ``json`` has ``texts`` and ``images``, lists that line up: in each place is either a text or the name of a
    part. The other values of the document stay. Layouts of documents:

    - ``text_list`` and ``image_info`` with ``image_name`` and ``matched_text_index``: the picture precedes that text;
    - ``texts`` and ``images``, which line up; at the same place, the picture comes first;
    - ``text`` with ``<image>`` at the places of ``images``;
    - a list of items, or one as ``sequence``, ``content`` …: texts, and paths of pictures, or objects with either.

    Attributes:
        path: The file.
        root: Folder of the pictures; None finds it near the file.
    """

    path: str
    root: str | None = None
    kind: str = "interleaved"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - files are read in any order
        """Yield the samples.

        Raises:
            ConfigError: The file has no list, or the pictures cannot be found.
            FormatError: It is not valid JSON.
            StorageError: It cannot be read.
        """
        folder, _ = find_picture_folder(self.path, self.root, self._pictures(), subset=subset_of_file(self.path))
        split = split_of_file(self.path)
        for number, element in enumerate(read_elements(self.path)):
            try:
                document, items = _read(element)
                parts: dict[str, PartRef] = {}
                images: list[str | None] = []
                for item in items:
                    name = None
                    if item.picture is not None:
                        name = f"{len(parts)}.{picture_extension(item.picture)}"
                        parts[name] = picture_ref(folder, item.picture)
                    images.append(name)
                document |= {"texts": [item.text for item in items], "images": images}
                parts["json"] = ValueRef(msgspec.json.encode(document))
                yield Row(key=document_key(document, number), parts=parts, origin=element.place, split=split)
            except SampleError as error:
                yield fault_row(element, error, split=split)

    def proposal(self) -> SampleProposal:
        """Return the type for documents, which code builds."""
        return SampleProposal(sample_type="InterleavedSample")

    def _pictures(self) -> Iterator[list[str]]:
        for element in read_elements(self.path):
            try:
                _, items = _read(element)
            except SampleError:
                continue  # its row fails
            yield from ([item.picture] for item in items if item.picture)


def _read(element: Element) -> tuple[dict[str, Any], list[_Item]]:
    """Return the other values of a document, and its items.

    Raises:
        SampleError: The document is of no known layout.
    """
    kind: Any = dict[str, Any] | list[Any]
    value: Any = decode(element, kind)
    document: dict[str, Any] = value if isinstance(value, dict) else {"items": value}
    items = _items(document)
    if not items:
        raise SampleError("the document has neither texts nor pictures")
    return document, items


def _items(document: dict[str, Any]) -> list[_Item]:
    """Return the items of a document, and remove them from it."""
    if isinstance(document.get("text_list"), list) and isinstance(document.get("image_info"), list):
        return _matched_items(document)
    if isinstance(document.get("texts"), list) and isinstance(document.get("images"), list):
        return _lined_up_items(document.pop("texts"), document.pop("images"))
    for key in _TEXT_KEYS:
        if isinstance(document.get(key), str) and isinstance(document.get("images"), list):
            return _placed_items(document.pop(key), document.pop("images"))
    for key in _LIST_KEYS:
        if isinstance(document.get(key), list):
            return [_item(item, number) for number, item in enumerate(document.pop(key))]
    raise SampleError(
        f"expected text_list and image_info, texts and images, or one of {', '.join(_LIST_KEYS)}; found"
        f" {', '.join([*document][:6]) or 'no fields'}"
    )


def _matched_items(document: dict[str, Any]) -> list[_Item]:
    """Return the texts of MMC4 with each picture before the text that it matches."""
    texts = document.pop("text_list")
    pictures: list[list[str]] = [[] for _ in range(len(texts) + 1)]
    for number, info in enumerate(document["image_info"]):
        path = info.get("image_name") or info.get("raw_url") if isinstance(info, dict) else None
        index = info.get("matched_text_index") if isinstance(info, dict) else None
        if not isinstance(path, str) or not isinstance(index, int):
            raise SampleError(f"image_info[{number}] has no image_name or no matched_text_index")
        if not 0 <= index < len(texts):
            raise SampleError(f"image_info[{number}] matches text {index} of {len(texts)}")
        pictures[index].append(path)
    items: list[_Item] = []
    for number, text in enumerate(texts):
        items += [_Item(picture=path) for path in pictures[number]]
        items.append(_Item(text=_text(text, f"text_list[{number}]")))
    return items


def _lined_up_items(texts: list[Any], images: list[Any]) -> list[_Item]:
    if len(texts) != len(images):
        raise SampleError(f"there are {len(texts)} texts and {len(images)} images; expected lists of one length")
    items: list[_Item] = []
    for number, (text, image) in enumerate(zip(texts, images, strict=True)):
        items += [_Item(picture=_text(image, f"images[{number}]"))] if image else []
        items += [_Item(text=_text(text, f"texts[{number}]"))] if text else []
    return items


def _placed_items(text: str, images: list[Any]) -> list[_Item]:
    pieces = [piece for piece in re.split(f"({IMAGE_PLACEHOLDER})", text) if piece]
    if pieces.count(IMAGE_PLACEHOLDER) != len(images):
        raise SampleError(
            f"the text has {pieces.count(IMAGE_PLACEHOLDER)} places of images ({IMAGE_PLACEHOLDER}), and the document"
            f" {len(images)} images"
        )
    left = iter(images)
    return [
        _Item(picture=_text(next(left), "images")) if piece == IMAGE_PLACEHOLDER else _Item(text=piece)
        for piece in pieces
    ]


def _item(item: object, number: int) -> _Item:
    if isinstance(item, str):
        is_picture = kind_of_name(item.rpartition(".")[2]) == "image" and not re.search(r"\s", item)
        return _Item(picture=item) if is_picture or item.startswith("data:image/") else _Item(text=item)
    if isinstance(item, dict):
        if isinstance(item.get("text"), str):
            return _Item(text=item["text"])
        key = next((key for key in _ITEM_PICTURE_KEYS if item.get(key)), None)
        value = None if key is None else item[key]
        if isinstance(value, dict):
            value = value.get("url", value.get("path"))
        if isinstance(value, str):
            return _Item(picture=value)
    raise SampleError(f"item {number} is neither a text nor the path of a picture")


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise SampleError(f"expected text as {place}, found {type(value).__name__}")
    return value
