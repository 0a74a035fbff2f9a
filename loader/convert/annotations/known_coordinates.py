"""Find out whether an annotation has coordinates of a picture."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from ...parts.kinds import is_compressed, kind_of_name, part_extension
from ..tables.named_files import plain_name

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
_Found = tuple[tuple[str, ...], bool]
"""The place of coordinates in a document, and True if they are relative."""


class Coordinates(NamedTuple):
    """Coordinates in a part.

    Attributes:
        place: Where they are: ``json: objects.bbox``.
        is_relative: They are shares of width and height, so that a resize does not move them.
    """

    place: str
    is_relative: bool


def find_coordinates(name: str, data: bytes) -> Coordinates | None:
    """Return the first coordinates in a part that look like positions in a picture, absolute ones before relative ones.

    >>> find_coordinates("json", b'{"objects": {"bbox": [[3, 4, 20, 30]]}}')
    Coordinates(place='json: objects.bbox', is_relative=False)
    >>> find_coordinates("txt", b"0 0.5 0.5 0.25 0.25")
    Coordinates(place='txt', is_relative=True)
    >>> find_coordinates("json", b'{"caption": "a box", "points": 3}')
    """
    # Unpack a compressed part, at most to a limit.
    if is_compressed(name):
        try:
            data = zlib.decompressobj(31).decompress(data, _MAX_UNPACKED_BYTES)
        except zlib.error:
            return None
    stem = name.partition(".")[0] if "." in name.removesuffix(".gz") else ""
    # Absolute coordinates matter most: any turn or resize moves them.
    best = min(_found(name, stem, data), key=lambda candidate: candidate[1], default=None)
    if best is None:
        return None
    path = ".".join(step for step in best[0] if step)
    return Coordinates(f"{name}: {path}" if path else name, best[1])


def _found(name: str, stem: str, data: bytes) -> Iterator[_Found]:
    # Arrays are recognised by their names, XML by its elements.
    kind, extension = kind_of_name(name), part_extension(name)
    if (kind == "array" and _is_name(stem)) or (extension == "xml" and _IN_XML.search(data)):
        yield (), False
    elif kind == "tree" or (kind == "text" and data.lstrip()[:1] in (b"[", b"{")):
        # Documents are searched value by value.
        decode: Any = msgspec.msgpack.decode if extension in ("mp", "msg") else msgspec.json.decode
        for document in data.splitlines() if extension == "jsonl" else (data,):
            with suppress(ValueError, RecursionError, msgspec.MsgspecError):  # no document; its loader reports that
                yield from _in_value(decode(document), stem, ())
    elif kind == "text":
        text = data.decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines and all(_CLASS_AND_NUMBERS.fullmatch(line) for line in lines):
            # The class is first in a line of YOLO, and may be a number.
            yield (), _are_relative([float(value) for line in lines for value in _NUMBER.findall(line)[1:]])
        else:
            yield from _in_value(text, stem, ())


def _in_value(value: Any, name: str, places: tuple[str, ...]) -> Iterator[_Found]:
    # Numbers under a name such as `bbox` are coordinates.
    if name and _is_name(name):
        numbers = _numbers(value)
        if len(numbers) > 1:
            yield places, _are_relative(numbers)
            return
    if isinstance(value, str):
        # Texts may have coordinates in the notations of vision models.
        match = _IN_TEXT.search(value)
        if match:
            yield places, "_2d" not in match[0]
    elif isinstance(value, dict):
        # Pairs such as `x` and `y` are coordinates together.
        plain = {plain_name(key): item for key, item in value.items() if isinstance(key, str)}
        for pair in _PAIRS:
            numbers = [value for key in pair for value in _numbers(plain.get(key))]
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
    """Return all numbers in a value; a text counts only if it has no other words."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [value]
    if isinstance(value, str):
        return [*map(float, _NUMBER.findall(value))] if _ONLY_NUMBERS.fullmatch(value) else []
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [element for item in items for element in _numbers(item)]


def _are_relative(numbers: list[float]) -> bool:
    return all(0 <= coordinate <= 1 for coordinate in numbers)
