"""Open pictures with Pillow, and with its plugins for formats that Pillow itself does not read."""

from __future__ import annotations

from importlib import import_module
from typing import BinaryIO, NamedTuple

from PIL import Image, UnidentifiedImageError

from ...accounting.kinds import HEADER_BYTES, kind_of_bytes


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


def open_picture(file: BinaryIO, *, formats: tuple[str, ...] | None = None) -> Image.Image:
    """Open a picture, whose header is read; the pixels are decoded on first access.

    Args:
        file: A file that can seek, at its start.
        formats: Pillow's names of the formats that may be tried, besides formats of plugins; None for all.

    Raises:
        ImportError: The format needs a plugin that is not installed; the message names it.
        UnidentifiedImageError: The file is not a picture.
    """
    try:
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
    return Image.open(file, formats=[plugin.format_name])
