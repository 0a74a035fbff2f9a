"""Describe each field or part of a sample: type, shape, size, text and pictures."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..errors import plural
from ..format.documents.conversation import Turn
from ..parts.kinds import LABEL, TEXT, TORCH, kind_of_name, part_extension
from ..parts.large_parts import LargePart
from ..samples.picture import Picture, PictureError, array_picture, encoded_picture, image_facts
from .media_views import Waveform, encoded_media_views, media_views
from .text import format_bytes

_TEXT_EXTENSIONS = TEXT | LABEL | {"caption", "csv", "html", "md", "tsv", "xml", "yaml", "yml"}
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
        pictures: The content, if it is one image or a few, or a frame of a video.
        waveform: The loudness of the content, if it is sound.
        fault: Why the content cannot be shown.
        type: Class of a value, ``ndarray`` or ``Tensor`` of an array; ``image``, ``text``, ``json``, ``media`` or
            ``bytes`` of encoded bytes.
        shape: Shape of an array; height and width of an encoded image.
        dtype: Type of an array's elements.
        range: Smallest and largest element of an array, of a large one among some; the value of a number twice.
        size_bytes: Number of encoded bytes.
        media: Metadata of audio or video by name: durations, counts, sizes and rates.
    """

    name: str = ""
    facts: str
    text: str | None = None
    pictures: tuple[Picture, ...] = ()
    waveform: Waveform | None = None
    fault: str | None = None
    type: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    range: tuple[float, float] | None = None
    size_bytes: int | None = None
    media: Mapping[str, Any] | None = None


def describe_part(name: str, data: bytes) -> FieldView:
    """Describe the raw bytes of a part by its extension or, if that is unknown, by its first bytes."""
    if isinstance(data, LargePart):
        kind, text = kind_of_name(name), data.head[:_MAX_TEXT].decode("utf-8", "replace")
        facts = f"{part_extension(name)}, {format_bytes(data.size_bytes)}, {data.fault}"
        shown = text if kind == "tree" and "\0" not in text else None
        return FieldView(name=name, facts=facts, text=shown, type="json", size_bytes=data.size_bytes)
    return replace(_describe_bytes(name, data), name=name, size_bytes=len(data))


def _describe_bytes(name: str, data: bytes) -> FieldView:
    # Describe contents of known extensions.
    extension = name.rsplit(".", 1)[-1].lower()
    size = format_bytes(len(data))
    if not data:
        return FieldView(facts="empty", fault="the part has no bytes", type="bytes")
    kind = kind_of_name(extension)
    if kind == "image":
        return _describe_image_bytes(data, size)
    if extension in ("json", "jsonl"):
        return _describe_json(data, size)
    if extension in _TEXT_EXTENSIONS:
        return _describe_text_bytes(data, size)
    if extension in TORCH:
        return FieldView(facts=f"{extension}, {size}, not decoded here: that needs torch", type="bytes")
    if extension == "npy":
        return _describe_npy(data, size)
    if kind in ("audio", "video"):
        facts, views = encoded_media_views(extension, data)
        return FieldView(facts=f"{facts}, {size}", type="media", **views)
    # Describe others by their first bytes: a picture, a text, or bytes.
    try:
        image_facts(data)
    except PictureError:
        pass  # an unknown extension: no fault, it is shown as text or bytes below
    else:
        return _describe_image_bytes(data, size)
    try:
        text = data[:_MAX_TEXT].decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable() or ("\0" not in text and "\n" in text):
        return FieldView(facts=f"text, {size}", text=text, type="text")
    return FieldView(facts=f"{size}, starts with {data[:16].hex(' ')}", type="bytes")


def describe_value(name: str, value: Any) -> FieldView:
    """Describe a decoded value: a tensor, array, image, text, number, list, dict or any other object."""
    view = _describe_value(name, value)
    return replace(view, name=name, type=view.type or getattr(type(value), "shown_as", type(value).__name__))


def _describe_value(name: str, value: Any) -> FieldView:
    # Values of Python come first, then arrays, pictures and structures, by what they have instead of their class:
    # importing torch or Pillow takes long.
    if value is None:
        return FieldView(facts="none")
    if isinstance(value, bytes):
        return describe_part(getattr(value, "extension", name), value)  # of a TorchPart
    if isinstance(value, str):
        return FieldView(facts=f"str, {plural(len(value), 'character')}", text=value[:_MAX_TEXT])
    if isinstance(value, bool | int | float | complex):
        extent = (value, value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        return FieldView(facts=f"{type(value).__name__} {value}", range=extent)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _describe_array(value)
    if hasattr(value, "getbands") and hasattr(value, "size"):
        return _describe_pillow(value)
    if isinstance(value, Mapping):
        return _describe_structure(value, f"dict, {plural(len(value), 'key')}")
    if isinstance(value, list | tuple):
        return _describe_list(value)
    if isinstance(value, Turn):
        return FieldView(facts=f"{value.role}: {' '.join(value.text.split())}"[:_MAX_TEXT])
    if type(value).__name__ == "AVDecoder":  # recognised by its name: importing its class would import torch
        return _describe_decoder(value)
    return FieldView(facts=type(value).__name__, text=_safe_repr(value))


def _describe_image_bytes(data: bytes, size: str) -> FieldView:
    try:
        kind, width, height, mode = image_facts(data)
        picture = encoded_picture(data)
    except PictureError as error:
        return FieldView(facts=size, fault=str(error), type="image")
    from ..parts.picture_traits import turn_note

    turn = turn_note(data)
    return FieldView(
        facts=f"{kind} {width}×{height} {mode}, {size}{f'; {turn}' if turn else ''}",
        pictures=(picture,),
        type="image",
        shape=(height, width),
    )


def _describe_text_bytes(data: bytes, size: str) -> FieldView:
    fault = None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        text, fault = data[:_MAX_TEXT].decode("utf-8", "surrogateescape"), f"not UTF-8 at byte {error.start}"
    return FieldView(facts=f"text, {size}", text=text[:_MAX_TEXT], fault=fault, type="text")


def _describe_json(data: bytes, size: str) -> FieldView:
    facts = f"json, {size}"
    try:
        return replace(_describe_structure(json.loads(data), facts), type="json")
    except (ValueError, RecursionError) as error:
        text = data[:_MAX_TEXT].decode("utf-8", "surrogateescape")
        return FieldView(facts=facts, text=text, fault=f"not JSON: {error}", type="json")


def _describe_structure(value: Any, facts: str) -> FieldView:
    try:
        # Values that JSON does not have are shown by their facts.
        encoder = json.JSONEncoder(indent=2, ensure_ascii=False, default=lambda inner: describe_value("", inner).facts)
        text = _first_text(encoder.iterencode(value))
    except (ValueError, TypeError, RecursionError):
        text = _safe_repr(value)
    return FieldView(facts=facts, text=text[:_MAX_TEXT])


def _first_text(pieces: Iterable[str]) -> str:
    # Stop at the length that is shown: the text of a whole document takes several times its memory.
    kept, length = [], 0
    for piece in pieces:
        kept.append(piece)
        length += len(piece)
        if length > _MAX_TEXT:
            break
    return "".join(kept)


def _describe_npy(data: bytes, size: str) -> FieldView:
    import numpy as np

    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # noqa: BLE001 - damaged headers raise many kinds
        return FieldView(facts=f"npy, {size}", fault=f"not a plain numpy array: {error}", type="ndarray")
    return replace(_describe_array(array), type="ndarray")


def _describe_array(array: Any) -> FieldView:
    shape = tuple(int(side) for side in array.shape)
    kind = str(array.dtype).removeprefix("torch.")
    sides = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})" if shape else "scalar"
    facts = f"{kind} {sides}"
    count = prod(shape)
    if count == 0:
        return FieldView(facts=facts + ", empty", shape=shape, dtype=kind)
    extent = _range_of(array)
    pictures: tuple[Picture, ...] = ()
    # A few numbers are shown one by one; of others the range, and a picture if they have the shape of one.
    if count <= 8 and extent is not None:
        facts += f": {', '.join(_format_number(item) for item in _flat(array).tolist())}"
    else:
        facts += f", {_format_number(extent[0])} – {_format_number(extent[1])}" if extent is not None else ""
        picture = array_picture(array) if len(shape) == 3 else None
        pictures = (picture,) if picture else ()
    return FieldView(facts=facts, pictures=pictures, shape=shape, dtype=kind, range=extent)


def _flat(array: Any) -> Any:
    # Take evenly spread elements of a large array.
    flat = array.reshape(-1)
    step = max(1, int(flat.shape[0]) // _MAX_STATISTICS)
    return flat[::step]


def _range_of(array: Any) -> tuple[float, float] | None:
    try:
        # A part of a large array is enough for a range that is only shown.
        some = _flat(array)
        with contextlib.suppress(AttributeError, TypeError, RuntimeError):
            some = some.numpy()  # of a tensor: quicker than torch here; but bfloat16 has no type in numpy
        low, high = some.min().item(), some.max().item()
    except Exception:  # noqa: BLE001 - strings, objects: no order, no range
        return None
    return None if isinstance(low, complex) else (low, high)


def _format_number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _describe_pillow(image: Any) -> FieldView:
    width, height = image.size

    def load(longest: int) -> Any:
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, "PNG")
        return encoded_picture(buffer.getvalue()).load(longest)

    picture = Picture(width=width, height=height, load=load)
    return FieldView(facts=f"Pillow image {width}×{height} {image.mode}", pictures=(picture,), shape=(height, width))


def _describe_list(values: list[Any] | tuple[Any, ...]) -> FieldView:
    # Describe the first hundred: a list may have millions.
    views = [describe_value(str(index), value) for index, value in enumerate(values[:100])]
    facts = f"{type(values).__name__} of {len(values):,}"
    pictures = tuple(picture for view in views for picture in view.pictures)[:_MAX_PICTURES]
    lines = [view.text if view.text is not None and "\n" not in view.text else view.facts for view in views]
    if len(values) > len(views):
        lines.append("…")
    text = "\n".join(f"[{index}] {line[:500]}" for index, line in enumerate(lines))
    return FieldView(facts=facts, text=text or None, pictures=pictures)


def _describe_decoder(decoder: Any) -> FieldView:
    try:
        facts, views = media_views(decoder.get_metadata(), lambda: nullcontext(decoder.stream))
    except Exception as error:  # noqa: BLE001 - damaged media raise many kinds
        return FieldView(facts=type(decoder).__name__, fault=f"not audio or video: {error}")
    return FieldView(facts=f"{type(decoder).__name__}: {facts}", **views)


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)[:_MAX_TEXT]
    except Exception as error:  # noqa: BLE001 - a dataset's own class may raise anything
        return f"<{type(value).__name__}, whose repr fails: {error}>"
