"""Recognize coordinates in parts whose layout is not known, so that they are not separated from their picture."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from ...format.documents.part_kinds import is_compressed, part_extension, part_kind
from ..tables.names import plain_name

__all__ = ["Coordinates", "find_coordinates"]

_MAX_UNPACKED_BYTES = 64 << 20
_COORDINATES = """
    bbox bboxes bndbox bndboxes box boxes boundingbox contour contours corners kpts keypoint keypoints landmark
    landmarks mask masks obb point points polygon polygons quad quads rbox rle rles segm segmentation segmentations
    vertices
"""
_NAMES = frozenset(_COORDINATES.split())
"""Words in the names of coordinates; others may follow or precede them: ``face_box``, ``bbox_2d``."""

_PAIRS = (("x", "y"), ("xmin", "ymin"), ("x1", "y1"), ("x0", "y0"), ("cx", "cy"), ("left", "top"))
"""Names of the members of an object, or of the columns of a table, that are coordinates together."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_ONLY_NUMBERS = re.compile(r"[\[\](){}\s\d.,;:eE+-]*")
_IN_TEXT = re.compile(r"(?:bbox|point)_2d\W+\[|<box>|<point[ >]|<loc\d{4}>")
_IN_XML = re.compile(rb"<(?:bndbox|box|polygon|polyline|points?|keypoints?|xmin)[\s>]")
_CLASS_AND_NUMBERS = re.compile(r"(?:[^\s,]*[\s,]+)?(?:-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?:[\s,]+|$)){4,}.*")


class Coordinates(NamedTuple):
    """Coordinates in a part.

    Attributes:
        place: Where they are: ``json: objects.bbox``.
        is_relative: They are shares of width and height, so that a resize does not move them.
    """

    place: str
    is_relative: bool


def find_coordinates(name: str, data: bytes) -> Coordinates | None:
    """Return the first coordinates in a part that look like those of a picture, absolute ones before relative ones.

    Args:
        name: Name of the part.
        data: Its contents.

    >>> find_coordinates("json", b'{"objects": {"bbox": [[3, 4, 20, 30]]}}')
    Coordinates(place='json: objects.bbox', is_relative=False)
    >>> find_coordinates("txt", b"0 0.5 0.5 0.25 0.25")
    Coordinates(place='txt', is_relative=True)
    >>> find_coordinates("json", b'{"caption": "a box", "points": 3}')
    """
    if is_compressed(name):
        try:
            data = zlib.decompressobj(31).decompress(data, _MAX_UNPACKED_BYTES)
        except zlib.error:
            return None
    first: Coordinates | None = None
    for places, is_relative in _found(name, data):
        place = ".".join(part for part in places if part)
        first = first or Coordinates(f"{name}: {place}" if place else name, is_relative)
        if not is_relative:
            return Coordinates(f"{name}: {place}" if place else name, is_relative=False)
    return first


def _found(name: str, data: bytes) -> Iterator[tuple[tuple[str, ...], bool]]:
    stem = name.partition(".")[0] if "." in name.removesuffix(".gz") else ""
    kind, extension = part_kind(name), part_extension(name)
    if kind == "array":
        if _is_name(stem):
            yield (), False
    elif kind == "tree" or extension == "geojson":
        for value in _documents(extension, data):
            yield from _in_value(value, stem, ())
    elif extension in ("xml", "svg"):
        if _IN_XML.search(data):
            yield (), False
    elif kind == "text" or extension == "csv":
        yield from _in_text(data.decode("utf-8", "replace"), stem)


def _documents(extension: str, data: bytes) -> Iterator[Any]:
    decode: Callable[[bytes], Any] = (
        msgspec.msgpack.decode if extension in ("mp", "msg", "msgpack") else msgspec.json.decode
    )
    for piece in data.splitlines() if extension == "jsonl" else (data,):
        try:
            yield decode(piece)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            continue  # it is no document; its loader reports that


def _in_text(text: str, stem: str) -> Iterator[tuple[tuple[str, ...], bool]]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and all(_CLASS_AND_NUMBERS.fullmatch(line) for line in lines):
        # The class is first in a line of YOLO, and may be a number.
        numbers = [float(number) for line in lines for number in _NUMBER.findall(line.replace(",", " "))[1:]]
        yield (), _are_relative(numbers)
    elif text.lstrip()[:1] in ("[", "{"):
        for value in _documents("json", text.encode()):
            yield from _in_value(value, stem, ())
    else:
        yield from _in_value(text, stem, ())


def _in_value(value: Any, name: str, places: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the coordinates below a value, each with its place and True for relative ones."""
    if name and _is_name(name):
        numbers = _numbers(value)
        if len(numbers) > 1:
            yield places, _are_relative(numbers)
            return
    if isinstance(value, str):
        match = _IN_TEXT.search(value)
        if match:
            yield places, "_2d" not in match[0]
    elif isinstance(value, dict):
        plain = {plain_name(key): item for key, item in value.items() if isinstance(key, str)}
        for pair in _PAIRS:
            numbers = [number for key in pair for number in _numbers(plain.get(key))]
            if len(numbers) > 1:
                yield (*places, f"{pair[0]}, {pair[1]}"), _are_relative(numbers)
        for key, item in value.items():
            yield from _in_value(item, str(key), (*places, str(key)))
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict | list | str):
                yield from _in_value(item, "", places)


def _is_name(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    return not _NAMES.isdisjoint(words) or not _NAMES.isdisjoint(a + b for a, b in pairwise(words))


def _numbers(value: Any) -> list[float]:
    """Return all numbers in a value; those of a text only if it has no other words."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [value]
    if isinstance(value, str):
        return [*map(float, _NUMBER.findall(value))] if _ONLY_NUMBERS.fullmatch(value) else []
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [number for item in items for number in _numbers(item)]


def _are_relative(numbers: list[float]) -> bool:
    return all(0 <= number <= 1 for number in numbers)
