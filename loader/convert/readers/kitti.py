"""KITTI: a text file in ``label_2`` with a line for each object: its box in the picture, and its place in space."""

from __future__ import annotations

from typing import Any

from .reader import Annotation, AnnotationReader, box_of_corners

_COLUMNS = 15  # the first is the class; results have a score behind


class _KittiReader(AnnotationReader):
    title = "KITTI"
    extension = "txt"

    def recognises(self, data: bytes) -> bool:
        objects = [_object(line) for line in data.decode().splitlines() if line.strip()]
        return not any(each["category"].isdecimal() for each in objects)

    def read(self, annotation: Annotation) -> dict[str, Any]:
        return {"objects": [_object(line) for line in annotation.data.decode().splitlines() if line.strip()]}


def _object(line: str) -> dict[str, Any]:
    category, *words = line.split()
    if len(words) + 1 not in (_COLUMNS, _COLUMNS + 1):
        raise ValueError(f"expected {_COLUMNS} columns, found {len(words) + 1}: {line[:80]!r}")
    truncated, occluded, alpha, left, top, right, bottom, *space = map(float, words)
    return {
        "category": category,
        "bbox": box_of_corners(left, top, right, bottom),
        "truncated": truncated,
        "occluded": int(occluded),
        "alpha": alpha,
        "dimensions": space[:3],
        "location": space[3:6],
        "rotation_y": space[6],
        **({"score": space[7]} if len(space) > 7 else {}),
    }


READER = _KittiReader()
