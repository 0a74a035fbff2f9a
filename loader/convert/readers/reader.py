"""A reader of annotations: it recognises a format, and converts the annotations of a picture to one form."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..annotations.coordinates import Mask, Size, encode_mask, rounded


@dataclass(frozen=True, slots=True)
class About:
    """The names of classes, and the shape of keypoints, that a file of the tree has for all annotations.

    Attributes:
        classes: Number of a class → its name.
        keypoints: Keypoints of each object and values of each point; None without keypoints.
    """

    classes: Mapping[int, str] = field(default_factory=dict)
    keypoints: tuple[int, int] | None = None


class Annotation(NamedTuple):
    """The annotations of one picture.

    Attributes:
        data: Contents of the file, or an element of a document as an object of JSON.
        about: Empty if the tree has no such file.
        size: Returns the size of the picture in pixels, as it is shown; for annotations that do not have it.
    """

    data: bytes
    about: About
    size: Callable[[], Size]


class AnnotationReader(ABC):
    """A format of annotations; the module of a reader has an instance under the name ``READER``.

    Attributes:
        title: The format, for people.
        extension: Of the files next to pictures; an empty text for elements of documents that name pictures.
        about_files: Names of the files that :meth:`about` reads; None without such files.
    """

    title: ClassVar[str]
    extension: ClassVar[str] = ""
    about_files: ClassVar[re.Pattern[str] | None] = None

    @abstractmethod
    def recognises(self, data: bytes) -> bool | None:
        """Return True if annotations have this format, None if they are too few to say it; an error counts as False."""

    @abstractmethod
    def read(self, annotation: Annotation) -> dict[str, Any]:
        """Return an object with ``objects``, and the other fields of the format.

        Raises:
            SampleError, msgspec.ValidationError, KeyError, TypeError, ValueError: The annotations are damaged.
        """

    def about(self, name: str, data: bytes) -> About:  # noqa: ARG002 - most formats have no such file
        """Return what a file says about all annotations; nothing for another file.

        Raises:
            ConfigError, KeyError, TypeError, ValueError: The file is damaged.
        """
        return About()


def box_of_corners(left: float, top: float, right: float, bottom: float) -> list[float]:
    """Return the box between two opposite corners: x, y, width and height.

    >>> box_of_corners(8, 1, 2.5, 4)
    [2.5, 1, 5.5, 3]
    """
    return [*map(rounded, (min(left, right), min(top, bottom), abs(right - left), abs(bottom - top)))]


def box_of_points(points: Sequence[float]) -> list[float]:
    """Return the box around points, a flat list of x and y.

    Raises:
        ValueError: There is no point.
    """
    xs, ys = points[::2], points[1::2]
    return box_of_corners(min(xs), min(ys), max(xs), max(ys))


def placed_mask(pixels: Mask, x: int, y: int, size: Size) -> dict[str, Any]:
    """Return the segmentation of a mask whose left upper pixel is at a place of a picture.

    Args:
        pixels: Shape (height, width); what leaves the picture is cut.
    """
    width, height = size
    mask = np.zeros((height, width), bool)
    inside = pixels[max(0, -y) : height - y, max(0, -x) : width - x]
    mask[max(0, y) :, max(0, x) :][: inside.shape[0], : inside.shape[1]] = inside
    return {"counts": encode_mask(mask, as_text=True), "size": [height, width]}
