"""Deep pictures are scaled by the type of their values, not clipped."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from loader.errors import SampleError
from loader.parts.picture_traits import PictureBits, as_16_bits, picture_bits, to_8_bits

RAMP = (np.arange(32 * 64, dtype=np.uint16) * 32).reshape(32, 64)


def png(values: Any, *, color_type: int) -> bytes:
    """Return a PNG of 16 bits, which Pillow cannot write for several channels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )  # fmt: skip


def tiff(values: Any, **options: Any) -> bytes:
    data = io.BytesIO()
    tifffile.imwrite(data, values, **options)
    return data.getvalue()


def pgm(values: Any) -> bytes:
    return b"P5 64 32 65535\n" + bytes(values.astype(">u2").tobytes())


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize(
    ("data", "kind", "bits"),
    [
        (png(RAMP, color_type=0), "unsigned", 16),
        (png(np.stack([RAMP] * 3, -1), color_type=2), "unsigned", 16),
        (png(np.stack([RAMP] * 4, -1), color_type=6), "unsigned", 16),
        (pgm(RAMP), "unsigned", 16),
        (tiff(RAMP), "unsigned", 16),
        (tiff(RAMP, byteorder=">"), "unsigned", 16),
        (tiff(np.stack([RAMP] * 3, -1), photometric="rgb"), "unsigned", 16),
        (tiff(RAMP.astype(np.int16)), "signed", 16),
        (tiff(RAMP.astype(np.uint32)), "unsigned", 32),
        (tiff(RAMP.astype(np.int32)), "signed", 32),
        (tiff(RAMP.astype(np.float32)), "float", 32),
        (tiff((RAMP >> 8).astype(np.uint8)), "unsigned", 8),
    ],
)
def test_the_type_of_values_is_that_of_the_file(data: bytes, kind: str, bits: int) -> None:
    assert picture_bits(opened(data)) == (kind, bits)


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (Image.fromarray(RAMP), PictureBits("unsigned", 16)),
        (Image.fromarray(RAMP.astype(np.int32)), PictureBits("unsigned", 16)),
        (Image.fromarray(RAMP.astype(np.int32) * 9), PictureBits("signed", 32)),
        (Image.new("1", (2, 2)), PictureBits("unsigned", 1)),
        (Image.new("P", (2, 2)), PictureBits("unsigned", 8)),
    ],
)
def test_pictures_that_come_from_no_file_have_the_type_that_fits(picture: Image.Image, expected: PictureBits) -> None:
    assert picture_bits(picture) == expected


@pytest.mark.parametrize(
    "data", [png(RAMP, color_type=0), pgm(RAMP), tiff(RAMP), tiff(RAMP, byteorder=">"), tiff(RAMP.astype(np.int32))]
)
def test_scaling_rounds_and_clipping_turns_white(data: bytes) -> None:
    picture = opened(data)
    largest = picture_bits(picture).largest
    scaled = to_8_bits(picture)
    assert (scaled.mode, scaled.size) == ("L", (64, 32))
    assert np.array_equal(np.asarray(scaled), np.rint(RAMP.astype(np.float64) * 255 / largest).astype(np.uint8))
    clipped = np.asarray(to_8_bits(picture, deep="clip"))
    assert np.array_equal(clipped, np.minimum(RAMP, 255))
    wide = np.asarray(as_16_bits(picture))
    assert np.array_equal(wide, np.rint(RAMP.astype(np.float64) * 65535 / largest))


def test_the_ends_of_each_type_are_black_and_white() -> None:
    for dtype in (np.uint16, np.uint32, np.int16, np.int32):
        limits = np.iinfo(dtype)
        values = np.array([[limits.min, 0, limits.max]], dtype)
        assert np.asarray(to_8_bits(opened(tiff(values)))).tolist() == [[0, 0, 255]], dtype


def test_floats_need_a_range() -> None:
    picture = opened(tiff(np.array([[-1, 0, 0.5, 1, 2, np.nan, np.inf]], np.float32)))
    with pytest.raises(SampleError, match="floats") as caught:
        to_8_bits(picture)
    assert "--float-range LOW,HIGH" in str(caught.value)
    assert np.asarray(to_8_bits(picture, float_range=(0, 1))).tolist() == [[0, 0, 128, 255, 255, 0, 255]]
    assert np.asarray(as_16_bits(picture, float_range=(0, 2))).tolist() == [[0, 0, 16384, 32768, 65535, 0, 65535]]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_pictures_of_8_bits_are_returned_as_they_are(mode: str) -> None:
    picture = Image.new(mode, (3, 2))
    assert to_8_bits(picture) is picture
    assert as_16_bits(picture) is picture
