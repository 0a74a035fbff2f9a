"""The texts and pictures of a document in reading order, from the layouts of MMC4, OBELICS and lists of items."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import SampleError, plural
from ...format.documents.conversation import IMAGE_PLACEHOLDER
from ...parts.kinds import HEADER_BYTES, kind_of_bytes, kind_of_name

NO_ITEMS = "the document has neither texts nor pictures"
"""The fault of a document that is empty."""

_LIST_KEYS = ("sequence", "content", "interleaved", "items", "document")
_TEXT_KEYS = ("text", "content", "caption")
_BASE64_KEYS = ("image_base64", "base64", "bytes", "image_bytes", "b64")
_PATH_KEYS = ("image", "image_url", "image_name", "path", "url", "raw_url")


class Item(NamedTuple):
    """A text, or a picture: its path or URL, or its contents."""

    text: str | None = None
    picture: str | bytes | None = None


def with_items(document: Mapping[str, Any], items: Sequence[Item], names: Sequence[str]) -> dict[str, Any]:
    """Return a document with ``texts`` and ``images``, which line up; pictures get the names of their parts."""
    following = iter(names)
    images = [None if item.picture is None else next(following) for item in items]
    return {**document, "texts": [item.text for item in items], "images": images}


def take_items(document: dict[str, Any], pictures: Sequence[str] | None = None) -> list[Item]:
    """Return the items of a document, and remove them from it.

    Args:
        pictures: Paths of its pictures, if it has places for them and no list; None if they are unknown.
    """
    items = _taken(document, pictures)
    if not items:
        raise SampleError(NO_ITEMS)
    return items


def _taken(document: dict[str, Any], pictures: Sequence[str] | None) -> list[Item]:
    # Try the layouts from the most to the least specific.
    if isinstance(document.get("text_list"), list) and isinstance(document.get("image_info"), list):
        return _matched_items(document)
    if isinstance(document.get("texts"), list) and isinstance(document.get("images"), list):
        return lined_up_items(document.pop("texts"), document.pop("images"))
    for key in _TEXT_KEYS:
        images = document.get("images", pictures)
        if isinstance(document.get(key), str) and isinstance(images, list | tuple):
            document.pop("images", None)
            return _placed_items(document.pop(key), images)
    for key in _LIST_KEYS:
        if isinstance(document.get(key), list):
            return [_item(item, index) for index, item in enumerate(document.pop(key))]
    raise SampleError(
        f"expected text_list and image_info, texts and images, or one of {', '.join(_LIST_KEYS)}; found"
        f" {', '.join([*document][:6]) or 'no fields'}"
    )


def _matched_items(document: dict[str, Any]) -> list[Item]:
    """Return the texts of MMC4 with each picture before the text that it matches."""
    texts = document.pop("text_list")
    pictures: list[list[Item]] = [[] for _ in texts]
    infos: list[Any] = []
    # Put each picture before the text that it matches.
    for position, info in enumerate(document["image_info"]):
        entry = f"image_info[{position}]"
        if not isinstance(info, dict):
            raise SampleError(f"expected an object as {entry}, found {type(info).__name__}")
        index = info.get("matched_text_index")
        if not isinstance(index, int):
            raise SampleError(
                f"{entry} has no matched_text_index, so its place among the {plural(len(texts), 'text')} is unknown"
            )
        if not 0 <= index < len(texts):
            raise SampleError(f"{entry} matches text {index} of {len(texts)}")
        pictures[index].append(Item(picture=_picture(info, entry)))
        infos.append({key: value for key, value in info.items() if key not in _BASE64_KEYS})  # they become parts
    # Keep what else is known about the pictures, and list all items.
    document["image_info"] = infos
    items: list[Item] = []
    for position, text in enumerate(texts):
        items += [*pictures[position], Item(text=_text(text, f"text_list[{position}]"))]
    return items


def lined_up_items(texts: Sequence[Any], images: Sequence[Any]) -> list[Item]:
    """Return the items of two lists that line up; at the same place, the picture comes first."""
    if len(texts) != len(images):
        counts = f"{plural(len(texts), 'text')} and {plural(len(images), 'image')}"
        raise SampleError(f"there are {counts}; expected lists of one length")
    items: list[Item] = []
    for index, (text, image) in enumerate(zip(texts, images, strict=True)):
        items += [Item(picture=_picture(image, f"images[{index}]"))] if image not in (None, "") else []
        items += [Item(text=_text(text, f"texts[{index}]"))] if text not in (None, "") else []
    return items


def _placed_items(text: str, images: Sequence[Any]) -> list[Item]:
    # Each mark in the text is the place of the next image.
    pieces = [piece for piece in re.split(f"({IMAGE_PLACEHOLDER})", text) if piece]
    if pieces.count(IMAGE_PLACEHOLDER) != len(images):
        raise SampleError(
            f"the text has {plural(pieces.count(IMAGE_PLACEHOLDER), 'place')} of images ({IMAGE_PLACEHOLDER}), and"
            f" the document {plural(len(images), 'image')}"
        )
    left = iter(enumerate(images))

    def item(piece: str) -> Item:
        if piece != IMAGE_PLACEHOLDER:
            return Item(text=piece)
        index, image = next(left)
        return Item(picture=_picture(image, f"images[{index}]"))

    return [item(piece) for piece in pieces]


def _item(item: object, index: int) -> Item:
    if isinstance(item, str):
        is_picture = kind_of_name(item.rpartition(".")[2]) == "image" and not re.search(r"\s", item)
        return Item(picture=item) if is_picture or item.startswith("data:image/") else Item(text=item)
    if isinstance(item, dict):
        if isinstance(item.get("text"), str):
            return Item(text=item["text"])
        if any(item.get(key) for key in (*_BASE64_KEYS, *_PATH_KEYS)):
            return Item(picture=_picture(item, f"item {index}"))
    raise SampleError(f"item {index} is neither a text nor the path of a picture")


def _picture(value: object, name: str) -> str | bytes:
    """Return the path or URL of a picture, or its contents; an object may have either."""
    if isinstance(value, dict):
        # Contents come before paths: the path may be on the author's machine.
        contents = next(((key, value[key]) for key in _BASE64_KEYS if value.get(key)), None)
        if contents is not None:
            key, data = contents
            return _picture_of_base64(data, f"{key} of {name}") if isinstance(data, str) else _picture(data, name)
        value = next((value[key] for key in _PATH_KEYS if value.get(key)), None)
        if isinstance(value, dict):
            return _picture(value, name)
        if value is None:
            raise SampleError(f"{name} has neither the name of a picture nor its contents")
    if not isinstance(value, str | bytes):
        raise SampleError(f"expected a picture as {name}, found {type(value).__name__}")
    return value


def _picture_of_base64(text: str, name: str) -> bytes:
    """Return the contents of a picture that is written in base64, also as a ``data:`` URL."""
    try:
        contents = base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text)
    except (binascii.Error, ValueError) as error:
        raise SampleError(f"{name} is damaged: {error}") from error
    kind = kind_of_bytes(contents[:HEADER_BYTES], len(contents))
    if kind.kind != "image":
        raise SampleError(f"expected a picture in base64 as {name}, found {kind.description}")
    return contents


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise SampleError(f"expected text as {name}, found {type(value).__name__}")
    return value
