"""Read the metadata of an image, audio or video from as few of its bytes as possible."""

from __future__ import annotations

import io
import struct
import warnings
from functools import cache
from typing import BinaryIO, cast

from ...errors import ConfigError, StorageError
from ...parts.kinds import HEADER_BYTES, kind_of_bytes
from ...storage import FileStream, ReadableFile
from .metadata import (
    AVMetadata,
    ImageMetadata,
    MediaFilter,
    MediaMetadata,
    MediaType,
    media_type_of_header,
    media_type_of_name,
)

_START_OF_FRAME = (0xC0, 0xC1, 0xC2)  # baseline, extended and progressive
_START_OF_SCAN = 0xDA
_QUANTIZATION = 0xDB
_SKIPPED = frozenset({0xC4, 0xDD, 0xFE, *range(0xE0, 0xF0)})  # Huffman tables, intervals, comments, applications
_MODES = {1: "L", 3: "RGB", 4: "CMYK"}
_MAX_PIXELS = 80_000_000  # of more, Pillow warns or raises an error


# Formats that Pillow may try, besides those of plugins: those of the names and headers that :mod:`.kind` knows.
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "ICO", "JPEG2000", "AVIF")

# Starts of JPEG and PNG files, whose headers are in front: the first bytes have the whole header, or are an error.
_SEQUENTIAL = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")

# Limit on the bytes read of an image: Pillow loads AVIF whole, and as many bytes of other headers as they claim.
_MAX_IMAGE_BYTES = 64 << 20

_FIRST_READ = 4 * 1024
_MAX_READ = 1024 * 1024


class FileRegion(FileStream):
    """A region of a file that reads ahead: 4 KiB at first, then four times as much with each sequential read, to 1 MiB.

    Args:
        file: Open file. It stays open when the region is closed.
    """

    def __init__(self, file: ReadableFile, offset: int, size_bytes: int) -> None:
        super().__init__(file, offset, size_bytes)
        self._read_size = _FIRST_READ
        self._buffer = b""
        self._buffer_start = 0
        self.bytes_read = 0  # number of bytes read from the file
        # Limit on :attr:`bytes_read`, above which reads raise ``ValueError``; None is no limit.
        self.max_bytes: int | None = None

    def _read_here(self, wanted: int) -> bytes:
        start = self._position - self._buffer_start
        if start < 0 or start + wanted > len(self._buffer):
            self._fill(wanted)
            start = 0
        return self._buffer[start : start + wanted]

    def _fill(self, wanted: int) -> None:
        """Read at least ``wanted`` bytes at the current position into the buffer."""
        is_sequential = self._buffer_start <= self._position <= self._buffer_start + len(self._buffer)
        if self._buffer and is_sequential:
            self._read_size = min(4 * self._read_size, _MAX_READ)
        size = min(max(wanted, self._read_size), self._size - self._position)
        if self.max_bytes is not None and self.bytes_read + size > self.max_bytes:
            raise ValueError(f"more than {self.max_bytes >> 20} MiB would have to be read")
        self._buffer = self._file.read_at(self._start + self._position, size)
        self._buffer_start = self._position
        self.bytes_read += len(self._buffer)


class BrokenMedia(Exception):  # noqa: N818 - not an error: the file is skipped and counted
    """A file that should be media and cannot be read as media; the text is the reason."""


def may_be_media(entry_key: str, media_filter: MediaFilter) -> bool:
    """Return True if a part or file of this name has to be opened to know if it is media."""
    if media_filter.strategy == "EXTENSION":
        return media_type_of_name(entry_key) is not None
    return media_filter.strategy == "HEADER" or media_filter.matches(entry_key)


def extract_media(region: FileRegion, entry_key: str, media_filter: MediaFilter) -> MediaMetadata | None:
    """Read the metadata of a part or file that :func:`may_be_media` accepted.

    Args:
        media_filter: The filter that selected it. Strategy ``"HEADER"`` finds the media type by the header,
            ``"EXTENSION"`` by the name, and ``"GLOB"`` by the name or else by the header.

    Returns:
        The metadata; None if the header is not of media.

    Raises:
        BrokenMedia: The file should be media and cannot be read as media.
    """
    head = region.read(HEADER_BYTES)
    media_type = _media_type(head, entry_key, media_filter)
    if media_type is None:
        if media_filter.strategy == "GLOB":
            raise BrokenMedia("it is not an image, audio or video")
        return None
    region.seek(0)
    try:
        return _image(region) if media_type == "image" else _av(region, exact=media_filter.exact)
    except (ConfigError, StorageError):
        raise
    except Exception as error:  # Pillow and PyAV raise errors of any type for damaged files.
        raise BrokenMedia(_reason(error, media_type, head)) from error


def _media_type(head: bytes, entry_key: str, media_filter: MediaFilter) -> MediaType | None:
    by_name = media_type_of_name(entry_key) if media_filter.strategy != "HEADER" else None
    if by_name is not None or media_filter.strategy == "EXTENSION":
        return by_name
    return media_type_of_header(head)


def _reason(error: Exception, media_type: MediaType, head: bytes) -> str:
    from PIL import UnidentifiedImageError

    contents = kind_of_bytes(head)
    expected = "image" if media_type == "image" else "audio or video"
    if contents.kind not in ("bytes", "image", "audio", "video"):
        return f"it is {contents.description}, not {'an image' if media_type == 'image' else expected}"
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image in a format of Pillow"
    lines = str(error).strip().splitlines()
    return f"it cannot be read as {expected} ({lines[0] if lines else type(error).__name__})"


def _image(region: FileRegion) -> ImageMetadata:
    region.max_bytes = _MAX_IMAGE_BYTES
    head = region.read(_FIRST_READ)
    region.seek(0)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    if head.startswith(b"\xff\xd8"):
        picture = usual_jpeg(head)
        if picture is not None:
            return picture
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about Exif data, and about pixels, which are not decoded here
        if head.startswith(_SEQUENTIAL):
            # Pillow makes some 40 small reads of a header, which are much faster in memory.
            try:
                return _by_pillow(io.BytesIO(head))
            except Exception:  # noqa: S110, BLE001 - of any type: the header is longer, or damaged
                pass
        return _by_pillow(cast("BinaryIO", region))


def _by_pillow(file: BinaryIO) -> ImageMetadata:
    from ...parts.open_picture import open_picture

    with open_picture(file, formats=_formats()) as image:
        return ImageMetadata(width=image.width, height=image.height, format=image.format or "", mode=image.mode)


@cache
def _formats() -> tuple[str, ...]:
    from PIL import Image

    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _webp(head: bytes) -> ImageMetadata:
    """Read a WebP header (RFC 9649), the first 30 bytes; Pillow would read the whole file."""
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


def _av(region: FileRegion, *, exact: bool) -> AVMetadata:
    from .av_probe import probe_av

    try:
        return probe_av(cast("BinaryIO", region), exact=exact)
    except ImportError as error:
        raise ConfigError(
            f"audio or video was found: {error}",
            hint="install it, or select only images: --media-metadata-by-glob '*.jpg,*.png'",
        ) from error


def usual_jpeg(head: bytes) -> ImageMetadata | None:
    """Return the metadata of a JPEG file; None if Pillow decides: it is damaged, unusual, or has a longer header."""
    frame = None
    at = 2
    # Walk through the segments up to the scan; leave all unusual ones to Pillow.
    while at + 4 <= len(head):
        if head[at] != 0xFF:
            return None
        marker, stop = head[at + 1], at + 2 + (head[at + 2] << 8 | head[at + 3])
        if marker == _START_OF_SCAN:
            return frame if stop <= len(head) else None
        segment = head[at + 4 : stop]
        if marker in _START_OF_FRAME:
            if frame is not None:
                return None
            frame = _frame(segment)
            if frame is None:
                return None
        elif marker == _QUANTIZATION:
            if len(segment) % 65 or any(table > 15 for table in segment[::65]):  # one byte, and 64 of 8 bits
                return None
        elif marker not in _SKIPPED or segment.startswith(b"MPF\0") or stop < at + 4:
            return None  # MPF: several pictures
        at = stop
    return None


def _frame(segment: bytes) -> ImageMetadata | None:
    if len(segment) < 6 or segment[0] != 8 or len(segment) != 6 + 3 * segment[5]:
        return None
    height, width = segment[1] << 8 | segment[2], segment[3] << 8 | segment[4]
    mode = _MODES.get(segment[5])
    if mode is None or not 0 < width * height <= _MAX_PIXELS:
        return None
    return ImageMetadata(width=width, height=height, format="JPEG", mode=mode)
