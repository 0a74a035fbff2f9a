"""DOTA: a text file in ``labelTxt`` with a line for each object: four corners in pixels, class and difficulty."""

from __future__ import annotations

from typing import Any

from ..annotations.coordinates import rounded
from .reader import Annotation, AnnotationReader, box_of_points

_COORDINATES, _WORDS = 8, 10


class _DotaReader(AnnotationReader):
    title = "DOTA"
    extension = "txt"

    def recognises(self, data: bytes) -> bool | None:
        objects = _document(data)["objects"]
        return all(not each["category"].replace(".", "").isdecimal() for each in objects) if objects else None

    def read(self, annotation: Annotation) -> dict[str, Any]:
        return _document(annotation.data)


def _document(data: bytes) -> dict[str, Any]:
    # The first lines may name the source and the size of a pixel: "imagesource:GoogleEarth", "gsd:0.146".
    lines = [line.split() for line in data.decode().splitlines() if line.strip()]
    facts = [words[0].partition(":")[::2] for words in lines if len(words) == 1 and ":" in words[0]]
    return {**dict(facts), "objects": [_object(words) for words in lines if len(words) > 1 or ":" not in words[0]]}


def _object(words: list[str]) -> dict[str, Any]:
    if len(words) != _WORDS:
        raise ValueError(f"expected {_WORDS} words of an object, found {' '.join(words)[:80]!r}")
    points = [rounded(float(word)) for word in words[:_COORDINATES]]
    category, difficulty = words[_COORDINATES:]
    shape = {"category": category, "bbox": box_of_points(points), "segmentation": [points]}
    return shape | {"difficult": int(difficulty)}


READER = _DotaReader()
