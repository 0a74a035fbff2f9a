"""YOLO: a text file with a line for each object, whose numbers are shares of the picture; classes have numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...format.documents.yaml_document import parse_yaml
from ..annotations.coordinates import Size, rounded
from .reader import About, Annotation, AnnotationReader, box_of_corners, box_of_points

_BOX, _SCORED_BOX, _TRIANGLE = 5, 6, 7  # words of a line
_SHARES = -0.01, 1.01  # rounded ones may leave the picture
_FAR = 0.5  # outside of the picture, as a share of it, where no box or point is
_VISIBLE = 2


class _YoloReader(AnnotationReader):
    title = "YOLO"
    extension = "txt"
    about_files = re.compile(r"classes\.txt|.+\.(?:names|ya?ml)")

    def recognises(self, data: bytes) -> bool:
        lines = [line.split() for line in data.decode().splitlines() if line.strip()]
        low, high = _SHARES
        return all(
            words[0].isdecimal()
            and len(words) >= _BOX
            and all(low <= share <= high for share in _coordinates([*map(float, words[1:])]))
            for words in lines
        )

    def about(self, name: str, data: bytes) -> About:
        text = data.decode()
        if not name.lower().endswith(("yaml", "yml")):
            lines = enumerate(text.split("\n"))
            return About({position: line.strip() for position, line in lines if line.strip()})
        document = parse_yaml(text, file=name) if "names" in text else None
        if not isinstance(document, dict) or "names" not in document:
            return About()
        names, shape = document["names"], document.get("kpt_shape")
        pairs = names.items() if isinstance(names, dict) else enumerate(names)
        return About({int(class_id): str(name) for class_id, name in pairs}, shape and (int(shape[0]), int(shape[1])))

    def read(self, annotation: Annotation) -> dict[str, Any]:
        width, height = size = annotation.size()
        lines = (line.split() for line in annotation.data.decode().splitlines())
        objects = [_object(words, size, annotation.about) for words in lines if words]
        return {"width": width, "height": height, "objects": objects}


def _coordinates(values: Sequence[float]) -> list[float]:
    """Return the numbers behind the class, without visibilities, if each third number behind the box may be one."""
    points = [values[start : start + 3] for start in range(4, len(values), 3)]
    have_visibilities = all(len(point) == 3 and point[2] in range(_VISIBLE + 1) for point in points)
    return [*values[:4], *(share for point in points for share in point[:2])] if have_visibilities else [*values]


def _object(words: list[str], size: Size, about: About) -> dict[str, Any]:
    category, count = int(words[0]), len(words)
    shares = [float(word) for word in words[1:]]
    fields: dict[str, Any] = {"category_id": category}
    if about.classes:
        if category not in about.classes:
            raise ValueError(f"class {category} has no name: names are of {min(about.classes)} to {max(about.classes)}")
        fields["category"] = about.classes[category]
    points, values = about.keypoints or (0, 0)
    has_points = points > 0 and count == _BOX + points * values
    if not all(-_FAR < share < 1 + _FAR for share in (_coordinates(shares) if has_points else shares)):
        raise ValueError(f"expected shares of width and height, found {' '.join(words)[:80]!r}")
    # A line has a box, perhaps with keypoints or a score, or else the points of a polygon.
    if not has_points and count >= _TRIANGLE and count % 2:
        polygon = [rounded(share * size[position % 2]) for position, share in enumerate(shares)]
        return fields | {"bbox": box_of_points(polygon), "segmentation": [polygon]}
    if not (has_points or count in (_BOX, _SCORED_BOX)):
        raise ValueError(f"expected a class and the numbers of a box or polygon, found {' '.join(words)[:80]!r}")
    x, y, width, height = (share * size[position % 2] for position, share in enumerate(shares[:4]))
    fields["bbox"] = box_of_corners(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    if has_points:
        groups = [shares[start : start + values] for start in range(4, len(shares), values)]
        fields["keypoints"] = [
            value
            for x, y, *visibility in groups
            for value in (rounded(x * size[0]), rounded(y * size[1]), int(*visibility) if visibility else _VISIBLE)
        ]
    elif count == _SCORED_BOX:
        fields["score"] = shares[4]
    return fields


READER = _YoloReader()
