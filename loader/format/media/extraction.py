"""What an image, audio or video is, from as few of its bytes as tell."""

from __future__ import annotations

import struct
import warnings
from typing import BinaryIO, cast

from ..errors import ConfigError, StorageError
from .file_region import FileRegion
from .media_filter import MediaFilter
from .media_kind import HEADER_BYTES, media_type_of_header, media_type_of_name
from .media_metadata import AVMetadata, ImageMetadata, MediaMetadata, MediaType

__all__ = ["BrokenMedia", "extract_media", "may_be_media"]

_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "ICO", "JPEG2000", "AVIF")
"""Those that Pillow may try: the names and headers that we know."""

_WEBP_HEADER = 30

_MOST_IMAGE_BYTES = 64 << 20
"""Pillow reads AVIF whole, and of other formats what the header claims, into memory: gigabytes, if it says so."""


class BrokenMedia(Exception):  # noqa: N818 - no error: the file is left out and counted
    """A file that should be media and cannot be read as such; the text says why."""


def may_be_media(entry_key: str, media_filter: MediaFilter) -> bool:
    """Tell by its name alone whether a part or file has to be looked into."""
    if media_filter.strategy == "EXTENSION":
        return media_type_of_name(entry_key) is not None
    return media_filter.strategy == "HEADER" or media_filter.matches(entry_key)


def extract_media(region: FileRegion, entry_key: str, media_filter: MediaFilter) -> MediaMetadata | None:
    """Read the metadata of one part or file that :func:`may_be_media` let pass.

    Args:
        region: Its bytes.
        entry_key: Its name.
        media_filter: How it was chosen. A header decides where the strategy is ``"HEADER"``, the name where it is
            ``"EXTENSION"``; where a pattern matched, the name if it tells, else the header.

    Returns:
        None where the header is not one of media.

    Raises:
        BrokenMedia: It should be media, and cannot be read.
        ConfigError: PyAV is needed and missing.
        StorageError: The file cannot be read.
    """
    media_type = _media_type(region, entry_key, media_filter)
    if media_type is None:
        if media_filter.strategy == "GLOB":
            raise BrokenMedia("it is no image, audio or video")
        return None
    region.seek(0)
    try:
        return _image(region) if media_type == "image" else _av(region)
    except (ConfigError, StorageError):
        raise
    except Exception as error:  # damaged files make Pillow and PyAV raise whatever it may be
        raise BrokenMedia(_reason(error, media_type)) from error


def _media_type(region: FileRegion, entry_key: str, media_filter: MediaFilter) -> MediaType | None:
    by_name = media_type_of_name(entry_key) if media_filter.strategy != "HEADER" else None
    if by_name is not None or media_filter.strategy == "EXTENSION":
        return by_name
    return media_type_of_header(region.read(HEADER_BYTES))


def _reason(error: Exception, media_type: MediaType) -> str:
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return "it is no image that Pillow knows"
    lines = str(error).strip().splitlines()
    what = "image" if media_type == "image" else "audio or video"
    return f"it cannot be read as {what} ({lines[0] if lines else type(error).__name__})"


def _image(region: FileRegion) -> ImageMetadata:
    from PIL import Image

    region.most_bytes = _MOST_IMAGE_BYTES
    head = region.read(_WEBP_HEADER)
    region.seek(0)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    Image.init()
    formats = [name for name in _FORMATS if name in Image.OPEN]  # a build of Pillow may lack some
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pixels that are not decoded here, and odd Exif data
        with Image.open(cast("BinaryIO", region), formats=formats) as image:
            return ImageMetadata(width=image.width, height=image.height, format=image.format or "", mode=image.mode)


def _webp(head: bytes) -> ImageMetadata:
    """Read a WebP header (RFC 9649); Pillow would read the whole file."""
    chunk = head[12:16]
    if chunk == b"VP8X":
        flags = head[20]
        width, height = (1 + int.from_bytes(head[at : at + 3], "little") for at in (24, 27))
        has_alpha = bool(flags & 0x10)
    elif chunk == b"VP8L" and head[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", head, 21)
        width, height, has_alpha = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF), bool(bits >> 28 & 1)
    elif chunk == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", head, 26))
        has_alpha = False
    else:
        raise ValueError("its WebP header is damaged")
    return ImageMetadata(width=width, height=height, format="WEBP", mode="RGBA" if has_alpha else "RGB")


def _av(region: FileRegion) -> AVMetadata:
    from .av_probe import probe_av

    try:
        return AVMetadata(**probe_av(cast("BinaryIO", region)))  # type: ignore[arg-type]
    except ImportError as error:
        raise ConfigError(
            f"there is audio or video here: {error}",
            do="install it, or choose the images alone: --media-metadata-by-glob '*.jpg,*.png'",
        ) from error
