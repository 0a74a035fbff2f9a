"""Split TIFF pictures of several pages, and find pictures with later frames, which training does not read."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec
from PIL import Image

from ...accounting.kinds import HEADER_BYTES, kind_of_bytes, kind_of_name
from ...errors import SampleError
from ..rows.documents import Item, lined_up_items, with_items
from ..writing.shard_file import FileContents, PartContents
from .pictures import PLAIN_MODES, UNREADABLE, count_frames, is_small_copy

_PNG_HEAD_BYTES = 1 << 16  # within which an animated PNG says so
_PAGE = re.compile(r"\d+\.[^.]+")
_TEXT_KEYS = ("text", "content", "caption")


def has_frames(name: str, data: PartContents) -> bool:
    """Return True for a picture with later frames or pages; smaller copies of the first do not count.

    Most pictures are recognised by their first bytes. The second picture in a JPEG file is no frame.

    Args:
        name: Part name.
        data: Its contents.
    """
    if kind_of_name(name) != "image":
        return False
    extension = kind_of_bytes(_head(data, HEADER_BYTES)).extension
    if extension == "png":  # counting its frames would take longer than writing it
        return b"acTL" in _head(data, _PNG_HEAD_BYTES).partition(b"IDAT")[0]
    if extension not in ("avif", "gif", "tif", "webp"):
        return False
    try:
        with _opened(data) as picture:
            return count_frames(picture) > 1
    except UNREADABLE:
        return False  # a damaged picture is written as it is


@contextmanager
def _opened(data: PartContents) -> Iterator[Any]:
    file: Any = data.file if isinstance(data, FileContents) else io.BytesIO(data)
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(file) as picture:
            yield picture
    finally:
        file.seek(0)


def _head(data: PartContents, size_bytes: int) -> bytes:
    if not isinstance(data, FileContents):
        return bytes(data[:size_bytes])
    head = data.file.read(size_bytes)
    data.file.seek(0)
    return bytes(head or b"")


def split_pages(contents: Mapping[str, bytes | FileContents]) -> dict[str, bytes | FileContents]:
    """Return the parts of a sample with each page of its TIFF pictures as a part: ``0.png``, ``1.png`` for ``tif``.

    A picture of one page keeps its bytes: ``0.tif``. Pages of a mode that PNG does not have are TIFF.

    Args:
        contents: Part name → contents.

    Raises:
        SampleError: A page cannot be decoded.
    """
    parts: dict[str, bytes | FileContents] = {}
    for name, data in contents.items():
        if kind_of_name(name) != "image" or kind_of_bytes(_head(data, HEADER_BYTES)).extension != "tif":
            parts[name] = data
            continue
        stem, dot, extension = name.rpartition(".")
        pages: Sequence[tuple[str, bytes | FileContents]] = _pages(name, data) or [(extension, data)]
        parts |= {f"{stem}{dot}{number}.{kind}": page for number, (kind, page) in enumerate(pages)}
    return parts


def _pages(name: str, data: PartContents) -> list[tuple[str, bytes]]:
    """Return the extension and contents of each page; none for a picture of one page."""
    pages: list[tuple[str, bytes]] = []
    number = 0
    try:
        with _opened(data) as picture:
            several = picture.n_frames if count_frames(picture) > 1 else 0
            for number in range(several):
                picture.seek(number)
                if number and is_small_copy(picture, number):
                    continue
                picture.load()
                is_png = picture.mode in PLAIN_MODES["png"]
                kind = {"format": "PNG"} if is_png else {"format": "TIFF", "compression": "tiff_adobe_deflate"}
                kept = {key: picture.info[key] for key in ("dpi", "icc_profile") if picture.info.get(key)}
                page = io.BytesIO()
                picture.copy().save(page, **kind, **kept)
                pages.append(("png" if is_png else "tif", page.getvalue()))
    except UNREADABLE as error:
        raise SampleError(f"page {number} cannot be decoded: {error}", part=name) from error
    return pages


def with_document(parts: Mapping[str, PartContents]) -> dict[str, PartContents]:
    """Return parts with the pages of a document and its text in reading order: ``texts`` and ``images`` in ``json``.

    Texts in ``json[texts]`` line up with the pages; another text follows the last one. Samples without text, with
    other media, or with ``json[images]`` stay as they are.

    Args:
        parts: Part name → contents, with numbered pages.
    """
    pages = [name for name in parts if _PAGE.fullmatch(name) and kind_of_name(name) == "image"]
    others = {kind_of_name(name): name for name in parts if name not in pages}
    values = {kind: parts[name] for kind, name in others.items()}
    is_alone = len(pages) + len(others) == len(parts) and {*others} <= {"text", "tree"}
    if not pages or not is_alone or any(isinstance(value, FileContents) for value in values.values()):
        return {**parts}
    tree = others.get("tree", "json")
    try:
        document: dict[str, Any] = msgspec.json.decode(cast("bytes", values.get("tree", b"{}")), type=dict[str, Any])
        items = _items(document, pages, cast("bytes", values.get("text", b"")).decode())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, SampleError):
        return {**parts}
    if "images" in document or not items or tree.lower() not in ("json", "jsn"):
        return {**parts}
    return {**{name: parts[name] for name in pages}, tree: msgspec.json.encode(with_items(document, items, pages))}


def _items(document: dict[str, Any], pages: Sequence[str], text: str) -> list[Item]:
    """Return pages and texts in reading order; none if the texts do not fit."""
    if isinstance(document.get("texts"), list):
        return [] if text else lined_up_items(document["texts"], pages)
    text = text or next((document[key] for key in _TEXT_KEYS if isinstance(document.get(key), str)), "")
    return [*(Item(picture=page) for page in pages), Item(text=text)] if text else []
