"""Files in the cells of a table, in Base64."""

from __future__ import annotations

import base64
import binascii
import re

from ...errors import SampleError
from ...parts.kinds import HEADER_BYTES, MEDIA_KINDS, kind_of_bytes

_DATA = "data:"
_MAX_HEAD = 200  # characters before the data of a URL
_HEAD = 64  # characters of the smallest picture that is taken for base64: paths are shorter, or have a dot
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def is_inline(text: str) -> bool:
    """Return True if a text begins as a picture, sound or video in base64, or as a ``data:`` URL.

    >>> is_inline("data:image/png;base64,iVBORw0KGgo="), is_inline("iVBORw0KGgo" * 9), is_inline("a/b.png")
    (True, True, False)
    """
    if text.startswith(_DATA):
        head, comma, _ = text[:_MAX_HEAD].partition(",")
        return bool(comma) and " " not in head
    # Decode the beginning only: captions and paths fail here.
    if len(text) < _HEAD or not _BASE64.fullmatch(text, 0, _HEAD):
        return False
    try:
        begin = base64.b64decode(text[:_HEAD])
    except ValueError:  # white space
        return _contents(text) is not None
    return kind_of_bytes(begin).kind in MEDIA_KINDS


def inline_contents(text: str) -> bytes | None:
    """Return the contents of a picture, sound or video that a text holds; None for a path or another text."""
    if not text.startswith(_DATA):
        return _contents(text)
    head, _, data = text.partition(",")
    if not head.endswith(";base64"):
        raise SampleError("expected base64 in a data: URL")
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise SampleError(f"a data: URL is damaged: {error}") from error


def _contents(text: str) -> bytes | None:
    if len(text) < _HEAD or not _BASE64.fullmatch(text):
        return None
    try:
        contents = base64.b64decode(text)
    except (binascii.Error, ValueError):
        return None
    return contents if kind_of_bytes(contents[:HEADER_BYTES], len(contents)).kind in MEDIA_KINDS else None
