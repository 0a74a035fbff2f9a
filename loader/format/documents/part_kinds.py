"""Classify parts by their names: image, text, label and so on.

The rules are those of webdataset. Only the text after the last dot of the part name counts (``seg.png`` is an image),
in any case (``TXT`` is text; webdataset keeps it as bytes). A part with ``.gz`` at the end is decompressed first.
"""

from __future__ import annotations

from typing import Literal

__all__ = [
    "ARRAY",
    "AUDIO",
    "IMAGE",
    "LABEL",
    "PICKLE",
    "TEXT",
    "TREE",
    "VIDEO",
    "PartKind",
    "is_compressed",
    "part_extension",
    "part_kind",
]

PartKind = Literal["array", "audio", "bytes", "image", "label", "pickle", "text", "tree", "video"]

TEXT = frozenset({"text", "transcript", "txt"})
"""Decoded to str."""

LABEL = frozenset({"cls", "cls2", "id", "index", "inx"})
"""Decoded to int."""

TREE = frozenset({"cbor", "jsn", "json", "jsonl", "mp", "msg"})
"""Decoded to dicts, lists and scalars."""

ARRAY = frozenset({"npy", "npz", "pth", "tb", "ten"})
"""Decoded to arrays or tensors."""

PICKLE = frozenset({"pickle", "pkl", "pyd"})
"""Unpickled, if the caller trusts the data."""

AUDIO = frozenset({"aac", "flac", "m4a", "mp3", "ogg", "opus", "sox", "wav", "wma"})
"""Audio files."""

VIDEO = frozenset({"avi", "h264", "m4v", "mjpeg", "mkv", "mov", "mp4", "mpeg", "mpg", "ogv", "webm", "wmv"})
"""Video files."""

_IMAGE = """
    apng blp bmp bufr bw cur dcx dds dib emf eps fit fits flc fli ftc ftu gbr gif grib icb icns ico iim im j2c j2k jfif
    jp2 jpc jpe jpeg jpf jpg jpx msp pbm pcd pcx pgm png pnm ppm ps psd pxr ras rgb rgba sgi tga tif tiff vda vst webp
    wmf xbm xpm
"""
IMAGE = frozenset(_IMAGE.split())
"""Decoded as images: the list of webdataset without ``mpg``, ``mpeg``, ``h5`` and ``hdf``, which are not images."""

_KIND_OF_EXTENSION: dict[str, PartKind] = {
    **dict.fromkeys(ARRAY, "array"),
    **dict.fromkeys(LABEL, "label"),
    **dict.fromkeys(PICKLE, "pickle"),
    **dict.fromkeys(TEXT, "text"),
    **dict.fromkeys(TREE, "tree"),
    **dict.fromkeys(AUDIO, "audio"),
    **dict.fromkeys(VIDEO, "video"),
    **dict.fromkeys(IMAGE, "image"),
}


def is_compressed(part_name: str) -> bool:
    """Return True if a part is decompressed by gzip before it is decoded.

    >>> is_compressed("json.gz"), is_compressed("GZ"), is_compressed("tgz")
    (True, True, False)
    """
    return part_name.lower().rpartition(".")[2] == "gz"


def part_extension(part_name: str) -> str:
    """Return the extension of a part name, by which it is decoded: lower-case, after the last dot, without ``.gz``.

    >>> part_extension("seg.PNG"), part_extension("json.gz"), part_extension("txt")
    ('png', 'json', 'txt')
    """
    return part_name.lower().removesuffix(".gz").rpartition(".")[2]


def part_kind(part_name: str) -> PartKind:
    """Return the kind of a part by its name, or ``"bytes"`` if the extension is unknown.

    >>> part_kind("JPG"), part_kind("left.TXT"), part_kind("bin")
    ('image', 'text', 'bytes')
    """
    return _KIND_OF_EXTENSION.get(part_extension(part_name), "bytes")
