"""Traits of real pictures, as Pillow writes them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from loader.parts.picture_traits import PictureTraits, picture_traits

RGB = Image.new("RGB", (20, 10), (9, 200, 30))
TURNED = Image.Exif()
TURNED[0x0112] = 6
LONG = Image.Exif()
LONG[0x0112] = 8
LONG[0x9286] = b"x" * 20_000  # a comment
DEEP = Image.fromarray(np.full((4, 4), 40_000, np.uint16))
FRAMES = {"save_all": True}


def saved(image: Image.Image, file_format: str, **options: object) -> io.BytesIO:
    file = io.BytesIO()
    more = [Image.new("RGB", (20, 10), "red"), Image.new("RGB", (20, 10))] if "save_all" in options else []
    image.copy().save(file, file_format, append_images=more, **options)  # which notes its settings at the picture
    file.seek(0)
    return file


@pytest.mark.parametrize(
    ("file", "traits"),
    [
        (saved(RGB, "JPEG"), PictureTraits()),
        (saved(RGB, "JPEG", exif=TURNED), PictureTraits(orientation=6)),
        (saved(RGB, "JPEG", exif=LONG), PictureTraits(orientation=8)),
        (saved(RGB.convert("CMYK"), "JPEG"), PictureTraits(cmyk=True)),
        (saved(RGB, "MPO", **FRAMES), PictureTraits(frames=3)),
        (saved(RGB, "PNG", exif=TURNED), PictureTraits(orientation=6)),
        (saved(DEEP, "PNG"), PictureTraits(bits=16)),
        (saved(RGB.convert("RGBA"), "PNG"), PictureTraits(alpha=True)),
        (saved(RGB, "PNG", **FRAMES), PictureTraits(frames=3)),
        (saved(RGB.quantize(8), "PNG", transparency=1), PictureTraits(alpha=True)),
        (saved(RGB, "GIF", **FRAMES), PictureTraits(frames=3)),
        (saved(RGB, "TIFF", **FRAMES), PictureTraits(frames=3)),
        (saved(RGB, "TIFF", tiffinfo={0x0112: 3}), PictureTraits(orientation=3)),
        (saved(RGB.convert("CMYK"), "TIFF"), PictureTraits(cmyk=True)),
        (saved(RGB.convert("F"), "TIFF"), PictureTraits(bits=32)),
        (saved(RGB, "WEBP"), PictureTraits()),
        (saved(RGB.convert("RGBA"), "WEBP", lossless=True), PictureTraits()),
        (saved(Image.new("RGBA", (4, 4), (1, 2, 3, 4)), "WEBP", lossless=True), PictureTraits(alpha=True)),
        (saved(RGB, "WEBP", exif=TURNED), PictureTraits(orientation=6)),
        (saved(RGB, "WEBP", **FRAMES), PictureTraits(frames=3)),
        (saved(RGB, "BMP"), PictureTraits()),
    ],
    ids=lambda value: None if isinstance(value, io.BytesIO) else "-".join(value.names),
)
def test_traits_are_read_from_headers(file: io.BytesIO, traits: PictureTraits) -> None:
    file.seek(0)
    assert picture_traits(file) == traits
