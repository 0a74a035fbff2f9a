"""Choose the part of a value of another format: its name with an extension, and its bytes."""

from __future__ import annotations

import io
import re
from typing import Any

import msgspec
import numpy as np

from ...errors import SampleError

__all__ = ["magic_extension", "part_of_value"]

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"fLaC", "flac"),
    (b"OggS", "ogg"),
    (b"ID3", "mp3"),
    (b"\xff\xfb", "mp3"),
    (b"%PDF", "pdf"),
    (b"\x1aE\xdf\xa3", "webm"),
)
_RIFF = {b"WEBP": "webp", b"WAVE": "wav", b"AVI ": "avi"}
_UNSAFE = re.compile(r"[^0-9A-Za-z_-]+")


def magic_extension(data: bytes) -> str | None:
    """Return the extension of a file by its first bytes; None if they are unknown.

    >>> magic_extension(b"RIFF....WEBP"), magic_extension(b"text")
    ('webp', None)
    """
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    if data[4:8] == b"ftyp":
        return "mp4"
    return next((extension for magic, extension in _MAGIC if data.startswith(magic)), None)


def part_of_value(name: str, value: Any) -> tuple[str, bytes]:
    """Return the part of a value: pictures as PNG, arrays as npy, texts as txt, labels as cls, others as JSON.

    Args:
        name: Name of the value.
        value: A value of Python, numpy, Pillow or torch; bytes get the extension of their contents.

    Raises:
        SampleError: The value has no such form.

    >>> part_of_value("caption", "a cat"), part_of_value("label", 3)
    (('caption.txt', b'a cat'), ('label.cls', b'3'))
    """
    extension, data = _encoded(name, value)
    own = _UNSAFE.sub("_", name).strip("_") or "value"
    return (extension if own.lower() == extension else f"{own}.{extension}"), data


def _encoded(name: str, value: Any) -> tuple[str, bytes]:
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return magic_extension(data) or "bin", data
    if isinstance(value, str):
        return "txt", value.encode("utf-8", "surrogatepass")
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return "cls", str(int(value)).encode()
    if hasattr(value, "save") and hasattr(value, "mode"):  # a picture of Pillow
        encoded = io.BytesIO()
        value.save(encoded, "PNG")
        return "png", encoded.getvalue()
    if hasattr(value, "detach"):  # a tensor of torch
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        encoded = io.BytesIO()
        np.save(encoded, value, allow_pickle=False)
        return "npy", encoded.getvalue()
    try:
        return "json", msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError) as error:
        raise SampleError(f"a value of type {type(value).__name__} cannot be written: {error}", part=name) from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
