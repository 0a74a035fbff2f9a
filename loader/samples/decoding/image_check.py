"""Whether a picture is whole, told faster than by decoding it.

A JPEG is decoded at an eighth of its size: that reads every bit of the entropy-coded data, where damage shows, and
skips most of the arithmetic. Formats with checksums have them verified, which decoding does not always do.
"""

from __future__ import annotations

import zlib

import simplejpeg
from PIL import Image

from .image_decode import open_image
from .part_decode import part_error

__all__ = ["check_image_bytes"]

_JPEG = b"\xff\xd8\xff"
_DAMAGE = ("Corrupt JPEG data", "Premature end of JPEG file")
_PNG = b"\x89PNG\r\n\x1a\n"
_EASY_MODES = frozenset(
    {"1", "CMYK", "F", "I", "I;16", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "YCbCr", "La"}
)
"""Pillow's modes that convert to RGB, whatever the pixels are."""


def check_image_bytes(data: bytes, part_name: str, *, trusted: bool = False) -> str | None:
    """Tell what is wrong with a picture; None if nothing is.

    Args:
        data: The file's bytes.
        part_name: The part's name, for the message.
        trusted: Also check formats that are programs (EPS, which Ghostscript runs).

    Returns:
        One line; pictures that decode, but with damaged pixels, have something wrong with them, too.

    >>> check_image_bytes(b"<!DOCTYPE html>", "jpg")
    "part 'jpg' is not an image (it starts with b'<!DOCTYPE html>')"
    """
    damage = None
    if data.startswith(_JPEG):
        is_whole, damage = _check_jpeg(data)
        if is_whole:
            return None
    elif data.startswith(_PNG):
        damage = _png_damage(data)
    try:
        image = open_image(data, trusted=trusted)
        if image.mode not in _EASY_MODES:
            image.convert("RGB")
    except Exception as error:  # noqa: BLE001 - decoders raise of every kind
        return part_error(part_name, data, error).message
    return f"part {part_name!r} is a damaged image, though it decodes: {damage}" if damage else None


def _check_jpeg(data: bytes) -> tuple[bool, str | None]:
    """Tell whether a JPEG is surely whole, and what is damaged; Pillow has the last word where neither is known."""
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        if Image.MAX_IMAGE_PIXELS is not None and height * width > Image.MAX_IMAGE_PIXELS:
            return False, None
        target = "CMYK" if colours in ("CMYK", "YCCK") else "GRAY"  # libjpeg skips the colours' arithmetic for grey
        simplejpeg.decode_jpeg(data, target, min_height=1, min_width=1, min_factor=8)
    except ValueError as error:
        # Other complaints are of what libjpeg's simple interface does not support, such as rare subsampling.
        message = str(error).strip()
        return False, message if message.startswith(_DAMAGE) else None
    return True, None


def _png_damage(data: bytes) -> str | None:
    """Verify the checksum of every chunk, and that the last one is there."""
    position = len(_PNG)
    while position + 12 <= len(data):
        size_bytes = int.from_bytes(data[position : position + 4], "big")
        body = data[position + 4 : position + 8 + size_bytes]
        checksum = data[position + 8 + size_bytes : position + 12 + size_bytes]
        if len(checksum) < 4:
            break
        name = body[:4]
        if zlib.crc32(body) != int.from_bytes(checksum, "big"):
            return f"the checksum of chunk {name!r} at byte {position} is wrong"
        if name == b"IEND":
            return None
        position += 12 + size_bytes
    return f"it ends at byte {len(data)}, before its last chunk"
