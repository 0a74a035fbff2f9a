"""Describe whole pictures that Pillow does not read, by the structure of their files."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import BinaryIO

from PIL import Image
from PIL.TiffImagePlugin import COMPRESSION_INFO, ImageFileDirectory_v2

from ..errors import plural
from .kinds import kind_of_bytes

_HEAD_BYTES = 256 * 1024  # with the Exif data and the colour profile of a JPEG
_VALUES = {2: "signed integers", 3: "floats", 5: "complex integers", 6: "complex numbers"}  # as TIFF numbers them


class UnreadPictureError(ValueError):
    """A picture is whole, but a decoder does not read its format or its layout of pixels."""


def refuse_unread_picture(file: BinaryIO) -> None:
    r"""Raise an error if a picture that Pillow failed to open is whole; return if it is damaged, or no picture.

    >>> import io
    >>> refuse_unread_picture(io.BytesIO(b"II*\0\x08\0\0\0"))
    >>> refuse_unread_picture(io.BytesIO(b"v/1\x01"))
    Traceback (most recent call last):
    loader.parts.unread_picture.UnreadPictureError: Pillow does not read an OpenEXR picture
    """
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    kind = kind_of_bytes(head)
    layout = None
    if kind.extension in _LAYOUTS:
        with suppress(Exception), warnings.catch_warnings(action="error"):  # damaged headers raise many kinds
            layout = _LAYOUTS[kind.extension](file, head)
    elif kind.kind == "image" and f".{kind.extension}" not in Image.registered_extensions():
        layout = ""
    if layout is not None:
        raise UnreadPictureError(f"Pillow does not read {kind.description}{layout}") from None


def _tiff(file: BinaryIO, head: bytes) -> str | None:
    # Read the first directory, as Pillow does.
    tags = ImageFileDirectory_v2(head[: 16 if b"+" in head[2:4] else 8])
    file.seek(tags.next)
    tags.load(file)
    # All pixels must be in the file, in strips or in tiles.
    offsets, sizes = (tags[273], tags[279]) if 273 in tags else (tags[324], tags[325])
    bands, bits, compression = tags.get(277, 1), tags.get(258, (1,))[0], tags.get(259, 1)
    size_bytes = file.seek(0, 2)
    is_complete = all(offset + size <= size_bytes for offset, size in zip(offsets, sizes, strict=True))
    if not is_complete or (compression == 1 and 8 * sum(sizes) < tags[256] * tags[257] * bands * bits):
        return None
    # Name what Pillow may not know.
    values = _VALUES.get(tags.get(339, (1,))[0], "unsigned integers")
    coding = "" if compression in COMPRESSION_INFO else f", compressed by the method {compression}"
    return f" with {bands} band{'s' * (bands > 1)} of {bits} bits, {values}{coding}"


def _jpeg(file: BinaryIO, head: bytes) -> str | None:
    # The last bytes mark the end of the picture; the bits of a channel are in the first frame.
    file.seek(-2, 2)
    is_complete, at = file.read() == b"\xff\xd9", 2
    while head[at + 1] not in (0xC0, 0xC1, 0xC2, 0xF7):
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    coding, bits = " in JPEG-LS" * (head[at + 1] == 0xF7), head[at + 4]
    return f" with {bits} bits a channel{coding}" if is_complete and (coding or bits in (12, 16)) else None


def _jpeg_2000(file: BinaryIO, head: bytes) -> str | None:
    at = head.index(b"\xff\x4f\xff\x51")  # the start of the code stream, whose first segment has the layout
    channels, bits = int.from_bytes(head[at + 40 : at + 42], "big"), 1 + (head[at + 42] & 0x7F)
    file.seek(-2, 2)
    is_unread = channels > 4 and file.read() == b"\xff\xd9"
    return f" with {plural(channels, 'channel')} of {bits} bits" if is_unread else None


_LAYOUTS = {"tif": _tiff, "jpg": _jpeg, "jp2": _jpeg_2000, "j2k": _jpeg_2000}
"""Usual extension → function that describes the layout of a whole picture."""
