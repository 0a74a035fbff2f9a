"""Verify, turn, resize and encode pictures as requested; other pictures keep their bytes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageOps, UnidentifiedImageError

from ...accounting.kinds import kind_of_name
from ...errors import SampleError

__all__ = ["PictureFormat", "PictureOptions", "convert_picture"]

PictureFormat = Literal["jpg", "png", "webp"]

_PILLOW_NAMES = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}
_OPAQUE = frozenset({"jpg"})
_ORIENTATION = 0x0112  # of EXIF


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureOptions:
    """Settings for the pictures of samples.

    Attributes:
        verify: Decode each picture, so that a damaged one fails its row.
        max_side: Shrink larger pictures to this length of their longer side, in pixels; None keeps sizes.
        format: Encode pictures of other formats in this one; None keeps formats.
        quality: Quality of JPEG and WebP, from 1 to 100.
        orient: Turn pictures as their EXIF orientation says, and encode those again; False keeps pixels and EXIF.
    """

    verify: bool = False
    max_side: int | None = None
    format: PictureFormat | None = None
    quality: int = 90
    orient: bool = False

    @property
    def keeps_bytes(self) -> bool:
        """True if no picture is decoded."""
        return not (self.verify or self.max_side or self.format or self.orient)


def convert_picture(name: str, data: bytes, options: PictureOptions) -> tuple[str, bytes]:
    """Return the name and the bytes of a part as they are written.

    Args:
        name: Part name.
        data: Its bytes; those of other parts than pictures are returned as they are.
        options: What to do.

    Raises:
        SampleError: The picture is damaged, or of a format that Pillow does not decode.
    """
    if options.keeps_bytes or kind_of_name(name) != "image" or name.endswith(".gz"):
        return name, data
    try:
        with Image.open(io.BytesIO(data)) as picture:
            picture.load()
            return _converted(name, data, picture, options)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise SampleError(f"not a picture that can be decoded: {error}", part=name) from error


def _converted(name: str, data: bytes, picture: Image.Image, options: PictureOptions) -> tuple[str, bytes]:
    original = "jpg" if picture.format in ("JPEG", "MPO") else (picture.format or "").lower()
    turned = options.orient and picture.getexif().get(_ORIENTATION, 1) != 1
    shrunk = options.max_side is not None and max(picture.size) > options.max_side
    wanted = options.format or original
    if not turned and not shrunk and wanted == original:
        return name, data
    if wanted not in _PILLOW_NAMES:
        wanted = "png"  # Pillow does not write all formats that it reads
    exif = picture.getexif()
    if turned:
        picture = ImageOps.exif_transpose(picture)
        exif = picture.getexif()
    if shrunk and options.max_side is not None:
        picture.thumbnail((options.max_side, options.max_side), Image.Resampling.LANCZOS)
    if wanted in _OPAQUE and picture.mode not in ("RGB", "L", "CMYK"):
        picture = picture.convert("RGB")
    encoded = io.BytesIO()
    picture.save(encoded, _PILLOW_NAMES[wanted], quality=options.quality, exif=exif)
    first, dot, _ = name.rpartition(".")
    return (name if wanted == original else f"{first}{dot}{wanted}"), encoded.getvalue()
