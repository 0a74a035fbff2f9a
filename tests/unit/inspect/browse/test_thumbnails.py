"""Thumbnails: their size, their likeness, and pictures that are refused."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from loader.inspect.browse.thumbnails import make_thumbnail
from loader.samples import PictureError


def photograph(width: int, height: int) -> Image.Image:
    """Return smooth shapes and a sharp edge."""
    y, x = np.mgrid[0:height, 0:width]
    red = 127 + 120 * np.sin(x / width * 9)
    green = 127 + 120 * np.cos(y / height * 7)
    blue = np.where(x + y > (width + height) / 2, 220, 30)
    return Image.fromarray(np.stack([red, green, blue], axis=-1).astype(np.uint8))


def encoded(image: Image.Image, form: str = "JPEG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def decoded(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "JPEG"
        return image.convert("RGB")


@pytest.mark.parametrize("width", [300, 333, 375, 400, 512, 577, 640, 800, 1024, 1280, 1740, 1920, 2300])
@pytest.mark.parametrize("is_tall", [False, True])
@pytest.mark.sampled(3)
def test_the_longer_side_of_a_large_jpeg_is_about_as_wanted(width: int, is_tall: bool) -> None:
    size = (width * 2 // 3, width) if is_tall else (width, width * 2 // 3)
    made = decoded(make_thumbnail(encoded(photograph(*size), quality=90), 256))
    assert 224 <= max(made.size) <= 320
    assert made.width / made.height == pytest.approx(size[0] / size[1], abs=0.02)


@pytest.mark.parametrize("size", [(1, 1), (24, 16), (256, 192), (255, 3)])
@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_a_small_picture_keeps_its_size(size: tuple[int, int], form: str) -> None:
    assert decoded(make_thumbnail(encoded(photograph(*size), form), 256)).size == size


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("size", [(640, 480), (1300, 900), (200, 150), (5000, 400)])
@pytest.mark.sampled(3)
def test_a_thumbnail_looks_like_its_picture(form: str, size: tuple[int, int]) -> None:
    image = photograph(*size)
    made = decoded(make_thumbnail(encoded(image, form, quality=95), 256))
    expected = image.resize(made.size, Image.Resampling.BOX)
    difference = np.abs(np.asarray(made, dtype=np.int16) - np.asarray(expected, dtype=np.int16))
    assert difference.mean() < 6


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_jpegs_of_other_colours_are_shown(mode: str) -> None:
    made = decoded(make_thumbnail(encoded(photograph(640, 480).convert(mode), quality=95), 256))
    expected = photograph(640, 480).convert(mode).convert("RGB").resize(made.size, Image.Resampling.BOX)
    difference = np.abs(np.asarray(made, dtype=np.int16) - np.asarray(expected, dtype=np.int16))
    assert difference.mean() < 8


def png_of_size(width: int, height: int) -> bytes:
    """Return a PNG that declares a size and has no pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    framed = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def jpeg_of_size(width: int, height: int) -> bytes:
    """Return a small JPEG whose header declares another size."""
    data = bytearray(encoded(photograph(64, 64)))
    place = data.index(b"\xff\xc0") + 5
    data[place : place + 4] = struct.pack(">HH", height, width)
    return bytes(data)


@pytest.mark.parametrize(
    "bomb", [png_of_size(20_000, 20_000), jpeg_of_size(20_000, 20_000), jpeg_of_size(65_000, 1600)]
)
def test_a_picture_of_more_than_100_million_pixels_is_refused(bomb: bytes) -> None:
    with pytest.raises(PictureError, match="pixels"):
        make_thumbnail(bomb, 256)


@pytest.mark.parametrize("data", [b"", b"\xff\xd8\xff", b"no picture", encoded(photograph(64, 64))[:200]])
def test_what_is_no_picture_is_an_error(data: bytes) -> None:
    with pytest.raises(PictureError):
        make_thumbnail(data, 256)
