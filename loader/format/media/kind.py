"""Distinguish images, audio and video from other files, by name or by first bytes."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from ..documents.part_kinds import AUDIO, VIDEO
from .metadata import MediaType

__all__ = [
    "HEADER_BYTES",
    "MediaFilter",
    "MediaStrategy",
    "media_type_of_header",
    "media_type_of_name",
    "parse_patterns",
]

HEADER_BYTES = 1024
"""Number of a file's first bytes that :func:`media_type_of_header` needs."""

# Pillow reads dozens of other formats, but most are read by nothing else.
_IMAGE = frozenset(
    (
        "apng",
        "avif",
        "bmp",
        "gif",
        "ico",
        "j2k",
        "jfif",
        "jp2",
        "jpe",
        "jpeg",
        "jpg",
        "jpx",
        "png",
        "tif",
        "tiff",
        "webp",
    )
)
_AV = AUDIO | VIDEO | {"3gp", "aif", "aiff", "flv", "m4b", "mka", "oga", "weba"}

_IMAGE_STARTS = (
    b"\xff\xd8\xff",  # JPEG
    b"\x89PNG\r\n\x1a\n",
    b"GIF87a",
    b"GIF89a",
    b"II*\0",  # TIFF
    b"MM\0*",
    b"II+\0",  # BigTIFF
    b"MM\0+",
    b"\0\0\0\x0cjP  \r\n\x87\n",  # JPEG 2000
    b"\xffO\xffQ",  # its bare code stream
)
_AV_STARTS = (
    b"\x1aE\xdf\xa3",  # Matroska, WebM
    b"OggS\0",
    b"fLaC",
    b"ID3\x02",  # MP3 with tags
    b"ID3\x03",
    b"ID3\x04",
    b"FLV\x01",
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9",  # ASF: WMV, WMA
    b"\0\0\x01\xba",  # MPEG program stream
    b"#!AMR",
)
_RIFF: dict[bytes, MediaType] = {b"WEBP": "image", b"AVI ": "av", b"WAVE": "av"}
_IMAGE_BRANDS = frozenset((b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1"))
_MOV_BOXES = frozenset((b"ftyp", b"mdat", b"moov", b"wide"))
_BMP_HEADER_SIZES = frozenset((12, 40, 52, 56, 64, 108, 124))
_TS_PACKET = 188


def media_type_of_name(name: str) -> MediaType | None:
    """Return the media type of a file name, by the text after the last dot in any case, or None.

    >>> media_type_of_name("clips/a.MP4")
    'av'
    """
    stem, dot, extension = name.rpartition(".")
    extension = extension.lower()
    if not dot or not stem:
        return None
    return "image" if extension in _IMAGE else "av" if extension in _AV else None


def media_type_of_header(head: bytes) -> MediaType | None:
    """Return the media type of a file by its first :data:`HEADER_BYTES` bytes, or None.

    >>> media_type_of_header(b"GIF89a")
    'image'
    """
    if head.startswith(_IMAGE_STARTS) or _is_bmp(head) or _is_ico(head):
        return "image"
    if head.startswith(_AV_STARTS):
        return "av"
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[:4] == b"FORM":
        return "av" if head[8:12] in (b"AIFF", b"AIFC") else None
    if head[4:8] in _MOV_BOXES:
        return "image" if head[4:8] == b"ftyp" and head[8:12] in _IMAGE_BRANDS else "av"
    return "av" if _is_mpeg_audio(head) or _is_mpeg_ts(head) else None


def _is_bmp(head: bytes) -> bool:
    # Texts begin with "BM", too.
    reserved = head[6:10] == bytes(4)
    return head[:2] == b"BM" and reserved and int.from_bytes(head[14:18], "little") in _BMP_HEADER_SIZES


def _is_ico(head: bytes) -> bool:
    count = int.from_bytes(head[4:6], "little")
    offset = int.from_bytes(head[18:22], "little")  # of the first picture, after the list of all pictures
    return head[:4] == b"\0\0\x01\0" and 0 < count < 256 and head[9:10] == b"\0" and offset >= 6 + 16 * count


def _is_mpeg_audio(head: bytes) -> bool:
    """Return True if MP3 or AAC frames start here, without tags."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xF0 not in (0xE0, 0xF0):
        return False
    layer = head[1] >> 1 & 3
    if layer == 0:  # AAC, where the bits after the sync word are fixed
        return head[1] & 0xF6 == 0xF0 and head[2] >> 2 & 0xF < 13
    # Layer 1 is out of use, and UTF-16 texts start like it.
    return layer in (1, 2) and head[1] >> 3 & 3 != 1 and head[2] >> 4 not in (0, 15) and head[2] >> 2 & 3 != 3


def _is_mpeg_ts(head: bytes) -> bool:
    return len(head) > 2 * _TS_PACKET and head[0] == head[_TS_PACKET] == head[2 * _TS_PACKET] == 0x47


MediaStrategy = Literal["EXTENSION", "GLOB", "HEADER"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFilter:
    """Selects the parts or files to collect metadata of.

    Attributes:
        strategy: ``"EXTENSION"`` selects names with an extension of media, ``"HEADER"`` files with a header of media,
            and ``"GLOB"`` names that match a pattern.
        patterns: Patterns of ``"GLOB"``; empty for the other strategies.
        exact: Decode audio and video to their ends to count frames and samples.
    """

    strategy: MediaStrategy
    patterns: tuple[str, ...] = ()
    exact: bool = False

    @property
    def flag(self) -> str:
        """The flag of ``energon prepare`` for this strategy."""
        return f"--media-metadata-by-{self.strategy.lower()}"

    @property
    def pattern_text(self) -> str:
        """The patterns as the table ``media_filters`` stores them."""
        return ",".join(self.patterns)

    def matches(self, entry_key: str) -> bool:
        """Return True if a name matches one of the patterns, in any case; ``*`` also matches ``/``.

        >>> MediaFilter(strategy="GLOB", patterns=("*.jpg",)).matches("folder/0001.JPG")
        True
        """
        name = entry_key.lower()
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.patterns)


def parse_patterns(text: str) -> tuple[str, ...]:
    """Split patterns at commas, and strip blanks around them.

    >>> parse_patterns("*.jpg, *.png")
    ('*.jpg', '*.png')
    """
    return tuple(pattern.strip() for pattern in text.split(",") if pattern.strip())
