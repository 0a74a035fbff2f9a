"""Whether a decoded value can be what a field of a sample type is meant to hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ..format.sample_types import FieldKind

__all__ = ["PICTURE", "kind_fault"]


class _Picture:
    """Stands for a picture that was checked, but not kept."""

    __slots__ = ()


PICTURE: Final = _Picture()
"""Stands for a picture that was checked, but not kept."""


def kind_fault(kind: FieldKind, value: object) -> str | None:
    """Tell what is wrong with a value for a field of that kind; None if nothing is.

    >>> kind_fault("text", "a cat"), kind_fault("text", {"en": "a cat"})
    (None, "expected text, found dict: {'en': 'a cat'}")
    """
    check = _CHECKS.get(kind)
    if check is None:
        return None
    fits, expected = check
    if fits(value):
        return None
    if value is PICTURE:
        return f"expected {expected}, found an image"
    shown = "" if value is None else f": {value!r}"
    return f"expected {expected}, found {type(value).__name__}{shown[:60]}"


def _is_picture(value: object) -> bool:
    # Arrays (npy) and tensors of two or three dimensions may be pictures, too.
    return value is PICTURE or getattr(value, "ndim", 0) in (2, 3)


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) or hasattr(value, "ndim")


def _is_media(value: object) -> bool:
    return isinstance(value, bytes) or hasattr(value, "ndim")


_CHECKS: Mapping[FieldKind, tuple[Callable[[Any], bool], str]] = {
    "audio": (_is_media, "audio"),
    "image": (_is_picture, "an image"),
    "images": (_is_list, "a list of images"),
    "label": (_is_number, "a whole number"),
    "label_name": (lambda value: isinstance(value, str), "text"),
    "sequence": (_is_list, "a list"),
    "tensor": (_is_list, "numbers"),
    "text": (lambda value: isinstance(value, str), "text"),
    "text_list": (_is_list_of_text, "a list of texts"),
    "video": (_is_media, "a video"),
}
