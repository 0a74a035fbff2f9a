"""Recognize the format of pictures, audio and video from their first bytes."""

from __future__ import annotations

import re

__all__ = ["HEAD_BYTES", "media_extension", "with_extension"]

HEAD_BYTES = 64
"""Bytes at the start of a file that tell its format."""

_MAGIC = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tif"),
    (b"MM\0*", "tif"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "jp2"),
    (b"fLaC", "flac"),
    (b"ID3", "mp3"),
    (b"\x93NUMPY", "npy"),
    (b"%PDF-", "pdf"),
)
_RIFF = {b"WEBP": "webp", b"WAVE": "wav", b"AVI ": "avi"}
_BRANDS = {b"qt  ": "mov", b"M4A ": "m4a", b"avif": "avif", b"avis": "avif", b"heic": "heic", b"mif1": "heic"}
_MP3_FRAME = re.compile(rb"\xff[\xf2\xf3\xfa\xfb][\x10-\xef]", re.DOTALL)  # layer III, with a valid bit rate


def media_extension(data: bytes | memoryview) -> str | None:
    r"""Return the extension of a file by its first bytes; None if they are of no known format.

    >>> media_extension(b"RIFF\0\0\0\0WAVEfmt "), media_extension(b"hello")
    ('wav', None)
    """
    head = bytes(data[:HEAD_BYTES])
    for magic, extension in _MAGIC:
        if head.startswith(magic):
            return extension
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "mp4")
    if head.startswith(b"\x1aE\xdf\xa3"):
        return "webm" if b"webm" in head else "mkv"
    if head.startswith(b"OggS"):
        return "opus" if head[28:36] == b"OpusHead" else "ogv" if head[28:35] == b"\x80theora" else "ogg"
    return "mp3" if _MP3_FRAME.match(head) else None


def with_extension(name: str, data: bytes | memoryview) -> str:
    """Return a part name with the extension of its contents.

    >>> with_extension("left.jpg", b"GIF89a"), with_extension("jpg", b"GIF89a"), with_extension("jpg", b"?")
    ('left.gif', 'gif', 'jpg')
    """
    extension = media_extension(data)
    if extension is None:
        return name
    first, dot, _ = name.rpartition(".")
    return f"{first}{dot}{extension}"
