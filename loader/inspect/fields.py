"""Describe each field or part of a sample: type, shape, size, text and pictures."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .picture import Picture, PictureError, array_picture, encoded_picture, image_facts
from .text import av_bytes_text, av_text, format_bytes, plural

__all__ = ["FieldView", "describe_part", "describe_value"]

_IMAGE_EXTENSIONS = frozenset(
    ("bmp", "gif", "jfif", "jpeg", "jpg", "pbm", "pgm", "png", "pnm", "ppm", "tif", "tiff", "webp")
)
_TEXT_EXTENSIONS = frozenset(
    (
        "caption",
        "cls",
        "cls2",
        "csv",
        "html",
        "id",
        "inx",
        "md",
        "text",
        "transcript",
        "tsv",
        "txt",
        "xml",
        "yaml",
        "yml",
    )
)
_MEDIA_EXTENSIONS = frozenset(
    ("aac", "avi", "flac", "m4a", "m4v", "mkv", "mov", "mp3", "mp4", "mpeg", "mpg", "oga", "ogg", "ogv", "opus", "wav")
) | {"webm"}
_MAX_TEXT = 20_000  # characters kept; the renderer shows fewer
_MAX_STATISTICS = 1_000_000  # elements that a range is computed from
_MAX_PICTURES = 4  # of a list of images


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldView:
    """One field or part of a sample.

    Attributes:
        name: The name of the field or part.
        facts: Type, shape, size and similar facts, in one line.
        text: The content, if it is text.
        pictures: The content, if it is one image or a few.
        fault: Why the content cannot be shown.
    """

    name: str
    facts: str
    text: str | None = None
    pictures: tuple[Picture, ...] = ()
    fault: str | None = None


def describe_part(name: str, data: bytes) -> FieldView:
    """Describe the raw bytes of a part by its extension or, if that is unknown, by its first bytes."""
    extension = name.rsplit(".", 1)[-1].lower()
    size = format_bytes(len(data))
    if not data:
        return FieldView(name=name, facts="empty", fault="the part has no bytes")
    if extension in _IMAGE_EXTENSIONS:
        return _describe_image_bytes(name, data, size)
    if extension in ("json", "jsonl"):
        return _describe_json(name, data, size)
    if extension in _TEXT_EXTENSIONS:
        return _describe_text_bytes(name, data, size)
    if extension == "npy":
        return _describe_npy(name, data, size)
    if extension in _MEDIA_EXTENSIONS:
        return FieldView(name=name, facts=f"{av_bytes_text(extension, data)}, {size}")
    try:
        image_facts(data)
    except PictureError:
        pass
    else:
        return _describe_image_bytes(name, data, size)
    try:
        text = data[:_MAX_TEXT].decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable() or ("\0" not in text and "\n" in text):
        return FieldView(name=name, facts=f"text, {size}", text=text)
    return FieldView(name=name, facts=f"{size}, starts with {data[:16].hex(' ')}")


def describe_value(name: str, value: Any) -> FieldView:
    """Describe a decoded value: a tensor, array, image, text, number, list, dict or any other object."""
    if value is None:
        return FieldView(name=name, facts="none")
    if isinstance(value, bytes):
        return describe_part(name, value)
    if isinstance(value, str):
        return FieldView(name=name, facts=f"str, {plural(len(value), 'character')}", text=value[:_MAX_TEXT])
    if isinstance(value, bool | int | float | complex):
        return FieldView(name=name, facts=f"{type(value).__name__} {value}")
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _describe_array(name, value)
    if hasattr(value, "getbands") and hasattr(value, "size"):
        return _describe_pillow(name, value)
    if isinstance(value, Mapping):
        return _describe_structure(name, value, f"dict, {plural(len(value), 'key')}")
    if isinstance(value, list | tuple):
        return _describe_list(name, value)
    if type(value).__name__ == "AVDecoder":  # recognised by its name: importing its class would import torch
        return _describe_decoder(name, value)
    return FieldView(name=name, facts=type(value).__name__, text=_safe_repr(value))


def _describe_image_bytes(name: str, data: bytes, size: str) -> FieldView:
    try:
        kind, width, height, mode = image_facts(data)
        picture = encoded_picture(data)
    except PictureError as error:
        return FieldView(name=name, facts=size, fault=str(error))
    return FieldView(name=name, facts=f"{kind} {width}×{height} {mode}, {size}", pictures=(picture,))


def _describe_text_bytes(name: str, data: bytes, size: str) -> FieldView:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return FieldView(
            name=name,
            facts=f"text, {size}",
            text=data[:_MAX_TEXT].decode("utf-8", "surrogateescape"),
            fault=f"not UTF-8 at byte {error.start}",
        )
    return FieldView(name=name, facts=f"text, {size}", text=text[:_MAX_TEXT])


def _describe_json(name: str, data: bytes, size: str) -> FieldView:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        return FieldView(
            name=name,
            facts=f"json, {size}",
            text=data[:_MAX_TEXT].decode("utf-8", "surrogateescape"),
            fault=f"not JSON: {error}",
        )
    return _describe_structure(name, value, f"json, {size}")


def _describe_structure(name: str, value: Any, facts: str) -> FieldView:
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, default=_describe_inner)
    except (ValueError, TypeError, RecursionError):
        text = _safe_repr(value)
    return FieldView(name=name, facts=facts, text=text[:_MAX_TEXT])


def _describe_inner(value: Any) -> str:
    return describe_value("", value).facts


def _describe_npy(name: str, data: bytes, size: str) -> FieldView:
    import numpy as np

    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # noqa: BLE001 - damaged headers raise many kinds
        return FieldView(name=name, facts=f"npy, {size}", fault=f"not a plain numpy array: {error}")
    return _describe_array(name, array)


def _describe_array(name: str, array: Any) -> FieldView:
    shape = tuple(int(side) for side in array.shape)
    kind = str(array.dtype).removeprefix("torch.")
    facts = f"{kind} {_format_shape(shape)}"
    count = 1
    for side in shape:
        count *= side
    if count == 0:
        return FieldView(name=name, facts=facts + ", empty")
    extent = _range_of(array)
    if count <= 8 and extent is not None:
        values = ", ".join(_format_number(item) for item in _flat(array).tolist())
        return FieldView(name=name, facts=f"{facts}: {values}")
    picture = array_picture(array) if len(shape) == 3 else None
    return FieldView(
        name=name,
        facts=facts + (f", {extent}" if extent else ""),
        pictures=(picture,) if picture else (),
    )


def _format_shape(shape: tuple[int, ...]) -> str:
    return "scalar" if not shape else f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _flat(array: Any) -> Any:
    flat = array.reshape(-1)
    step = max(1, int(flat.shape[0]) // _MAX_STATISTICS)
    return flat[::step]


def _range_of(array: Any) -> str | None:
    """Format the range of an array's numbers as ``low – high``; of a large array, that of a sample."""
    try:
        some = _flat(array)
        return f"{_format_number(some.min().item())} – {_format_number(some.max().item())}"
    except Exception:  # noqa: BLE001 - strings, objects, complex numbers: no order, no range
        return None


def _format_number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _describe_pillow(name: str, image: Any) -> FieldView:
    width, height = image.size

    def load(longest: int) -> Any:
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, "PNG")
        return encoded_picture(buffer.getvalue()).load(longest)

    picture = Picture(width=width, height=height, load=load)
    return FieldView(name=name, facts=f"Pillow image {width}×{height} {image.mode}", pictures=(picture,))


def _describe_list(name: str, values: list[Any] | tuple[Any, ...]) -> FieldView:
    views = [describe_value(str(number), value) for number, value in enumerate(values[:100])]
    facts = f"{type(values).__name__} of {len(values):,}"
    pictures = tuple(picture for view in views for picture in view.pictures)[:_MAX_PICTURES]
    lines = [view.text if view.text is not None and "\n" not in view.text else view.facts for view in views]
    if len(values) > len(views):
        lines.append("…")
    text = "\n".join(f"[{number}] {line[:500]}" for number, line in enumerate(lines))
    return FieldView(name=name, facts=facts, text=text or None, pictures=pictures)


def _describe_decoder(name: str, decoder: Any) -> FieldView:
    """Describe audio or video that training code decodes clip by clip."""
    try:
        facts = av_text(decoder.get_metadata())
    except Exception as error:  # noqa: BLE001 - damaged media raise many kinds
        return FieldView(name=name, facts=type(decoder).__name__, fault=f"not audio or video: {error}")
    return FieldView(name=name, facts=f"{type(decoder).__name__}: {facts}")


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)[:_MAX_TEXT]
    except Exception as error:  # noqa: BLE001 - a dataset's own class may raise anything
        return f"<{type(value).__name__}, whose repr fails: {error}>"
