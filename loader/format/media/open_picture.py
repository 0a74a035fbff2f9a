"""Open pictures with Pillow, and with its plugins for formats that Pillow itself does not read."""

from __future__ import annotations

from importlib import import_module
from typing import BinaryIO, NamedTuple

from PIL import Image, UnidentifiedImageError

from ...accounting.kinds import HEADER_BYTES, kind_of_bytes
from ...storage.protocol import limit_of_environment
from .jxl_header import jxl_size

PIXEL_LIMIT_VARIABLE = "ENERGON_MAX_PIXELS"
"""Environment variable of the most pixels of a picture, for all decoders that set no limit."""

_NO_LIMIT = 1 << 62  # as for programs that set PIL.Image.MAX_IMAGE_PIXELS to None
_JXL_HEAD_BYTES = 1 << 16  # Exif data may precede the picture


class _Plugin(NamedTuple):
    package: str
    module: str
    register: str | None  # None: importing the module registers the format
    format_name: str  # as Pillow knows the format then


_PLUGINS = {
    "avif": _Plugin("pillow-avif-plugin", "pillow_avif", None, "AVIF"),  # for Pillow before 11.3
    "heic": _Plugin("pillow-heif", "pillow_heif", "register_heif_opener", "HEIF"),
    "jxl": _Plugin("pillow-jxl-plugin", "pillow_jxl", None, "JXL"),
}
"""Usual extension → plugin. A plugin is imported when the first such picture is opened."""


def pixel_limit(given: int | None = None) -> int:
    """Return the most pixels of a picture that is decoded: those given, of ``ENERGON_MAX_PIXELS``, or Pillow's limit.

    Pillow refuses twice the pixels of ``PIL.Image.MAX_IMAGE_PIXELS``, 178,956,970 unless a program changes it.

    Raises:
        ConfigError: The variable is no number.
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
        file: A file that can seek, at its start.
        formats: Pillow's names of the formats that may be tried, besides formats of plugins; None for all.
        max_pixels: Most pixels of the picture; None for :func:`pixel_limit`.

    Raises:
        Image.DecompressionBombError: It has more pixels.
        ImportError: The format needs a plugin that is not installed; the message names it.
        UnidentifiedImageError: The file is not a picture.
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
            raise
    try:
        module = import_module(plugin.module)
    except ImportError:
        message = f"decoding {kind.description} needs the package {plugin.package}: pip install {plugin.package}"
        raise ImportError(message) from None
    if plugin.register is not None:
        getattr(module, plugin.register)()
    file.seek(0)
    _check_jxl(file, limit)
    return Image.open(file, formats=[plugin.format_name])


def _check_jxl(file: BinaryIO, limit: int) -> None:
    """Refuse a JPEG XL picture of too many pixels: its plugin decodes them to open it."""
    size = jxl_size(file.read(_JXL_HEAD_BYTES))
    if size is not None:
        check_pixels(*size, limit)
    file.seek(0)
