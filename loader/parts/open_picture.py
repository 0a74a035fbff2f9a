"""Open pictures with Pillow, and with its plugins for formats that Pillow itself does not read."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import BinaryIO, NamedTuple

from PIL import Image, UnidentifiedImageError

from ..errors import MissingPackageError
from ..storage.protocol import limit_of_environment
from .kinds import HEADER_BYTES, kind_of_bytes
from .unread_picture import refuse_unread_picture

# Environment variable of the most pixels of a picture, for all decoders that set no limit.
PIXEL_LIMIT_VARIABLE = "ENERGON_MAX_PIXELS"

_NO_LIMIT = 1 << 62  # as for programs that set PIL.Image.MAX_IMAGE_PIXELS to None
_CODESTREAM = b"\xff\x0a"
_CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"
_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))  # of width and height
_SIDE_BITS = (9, 13, 18, 30)

logging.getLogger("PIL.TiffImagePlugin").setLevel(logging.CRITICAL)  # it repeats on stderr what our errors say


class _Plugin(NamedTuple):
    package: str
    module: str
    register: str | None  # None: importing the module registers the format
    format_name: str  # as Pillow knows the format then


# Usual extension → plugin. A plugin is imported when the first such picture is opened.
_PLUGINS = {
    "avif": _Plugin("pillow-avif-plugin", "pillow_avif", None, "AVIF"),  # for Pillow before 11.3
    "heic": _Plugin("pillow-heif", "pillow_heif", "register_heif_opener", "HEIF"),
    "jxl": _Plugin("pillow-jxl-plugin", "pillow_jxl", None, "JXL"),
}


def pixel_limit(given: int | None = None) -> int:
    """Return the most pixels of a picture that is decoded: those given, of ``ENERGON_MAX_PIXELS``, or Pillow's limit.

    Pillow refuses twice the pixels of ``PIL.Image.MAX_IMAGE_PIXELS``, 178,956,970 unless a program changes it.
    """
    if given is not None:
        return given
    pillows = Image.MAX_IMAGE_PIXELS
    return limit_of_environment(PIXEL_LIMIT_VARIABLE, _NO_LIMIT if pillows is None else 2 * pillows, unit="pixels")


def check_pixels(width: int, height: int, limit: int) -> None:
    """Refuse a picture of more pixels than a limit.

    Raises:
        Image.DecompressionBombError: It has more.
    """
    if width * height > limit:
        raise Image.DecompressionBombError(f"it has {width:,} × {height:,} pixels, more than the limit of {limit:,}")


def open_picture(
    file: BinaryIO, *, formats: tuple[str, ...] | None = None, max_pixels: int | None = None
) -> Image.Image:
    """Open a picture, whose header is read; the pixels are decoded on first access.

    Args:
        formats: Pillow's names of the formats that may be tried, besides formats of plugins; None for all.
        max_pixels: Most pixels of the picture; None for :func:`pixel_limit`.

    Raises:
        Image.DecompressionBombError: It has more pixels.
        ImportError: The format needs a plugin that is not installed; the message names it.
        UnreadPictureError: Pillow does not read such pictures; the message says what it is.
        UnidentifiedImageError: The file is not a picture, or damaged.
    """
    limit = pixel_limit(max_pixels)
    if Image.MAX_IMAGE_PIXELS is not None and limit > 2 * Image.MAX_IMAGE_PIXELS:
        Image.MAX_IMAGE_PIXELS = -(-limit // 2)  # the user wants more than Pillow, which has one limit of the process
    image = _open_picture(file, formats, limit)
    check_pixels(*image.size, limit)
    return image


def _open_picture(file: BinaryIO, formats: tuple[str, ...] | None, limit: int) -> Image.Image:
    try:
        if "JXL" in Image.OPEN:
            _check_jxl(file, limit)
        return Image.open(file, formats=formats)
    except UnidentifiedImageError:
        file.seek(0)
        kind = kind_of_bytes(file.read(HEADER_BYTES))
        plugin = _PLUGINS.get(kind.extension)
        if plugin is None or (plugin.format_name in Image.OPEN and plugin.format_name in (formats or Image.OPEN)):
            refuse_unread_picture(file)
            raise
    try:
        module = import_module(plugin.module)
    except ImportError:
        message = f"decoding {kind.description} needs the package {plugin.package}: pip install {plugin.package}"
        raise MissingPackageError(message) from None
    if plugin.register is not None:
        getattr(module, plugin.register)()
    file.seek(0)
    _check_jxl(file, limit)
    return Image.open(file, formats=[plugin.format_name])


def _check_jxl(file: BinaryIO, limit: int) -> None:
    """Refuse a JPEG XL picture of too many pixels: its plugin decodes them to open it."""
    head = file.read(len(_CONTAINER))
    if head.startswith((_CODESTREAM, _CONTAINER)):
        size = jxl_size(head + file.read())  # as the plugin does: Exif data of any size may precede the picture
        if size is not None:
            check_pixels(*size, limit)
    file.seek(0)


def jxl_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a JPEG XL picture (ISO/IEC 18181-1, annex D, and 18181-2); None without a picture.

    >>> jxl_size(bytes.fromhex("ff0a 4d")), jxl_size(b"GIF89a")
    ((56, 56), None)
    """
    if data.startswith(_CONTAINER):
        data = _jxl_codestream(data)
    if not data.startswith(_CODESTREAM):
        return None
    # Read the size header, whose fields are bits from the lowest one on.
    bits = int.from_bytes(data[2:12], "little")

    def take(count: int) -> int:
        nonlocal bits
        value, bits = bits & ((1 << count) - 1), bits >> count
        return value

    is_small = take(1)

    def side() -> int:
        return 8 * (take(5) + 1) if is_small else take(_SIDE_BITS[take(2)]) + 1

    height = side()
    # The width is stored, or follows from one of the usual ratios.
    ratio = take(3)
    if not ratio:
        return side(), height
    wide, high = _RATIOS[ratio - 1]
    return height * wide // high, height


def _jxl_codestream(data: bytes) -> bytes:
    """Return the first bytes of the picture in a file of boxes, which may divide it anywhere."""
    codestream, at = b"", 0
    while at + 8 <= len(data) and len(codestream) < 12:
        size_bytes, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        begin = at + 8
        if size_bytes == 1:
            size_bytes, begin = int.from_bytes(data[begin : begin + 8], "big"), begin + 8
        stop = len(data) if size_bytes == 0 else at + size_bytes
        if kind in (b"jxlc", b"jxlp"):
            codestream += data[begin + 4 * (kind == b"jxlp") : stop][:12]
        if stop <= at:
            break
        at = stop
    return codestream
