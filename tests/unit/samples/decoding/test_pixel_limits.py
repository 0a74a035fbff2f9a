"""A picture of more pixels than the limit is refused by its header, in every format and by every decoder."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import pytest
from PIL import Image, features

from loader.errors import ConfigError, SampleError
from loader.parts.open_picture import jxl_size, pixel_limit
from loader.samples import SampleDecoder
from loader.samples.decoding.image_decode import EncodedImage

SIZE = (48, 40)
PIXELS = SIZE[0] * SIZE[1]
FORMATS = {
    "jpg": "JPEG",
    "png": "PNG",
    "webp": "WEBP",
    "gif": "GIF",
    "tif": "TIFF",
    "bmp": "BMP",
    "jp2": "JPEG2000",
    "ppm": "PPM",
    "avif": "AVIF",
    "heic": "HEIF",
    "jxl": "JXL",
}


def encoded(extension: str, **options: Any) -> bytes:
    if extension == "heic":
        pytest.importorskip("pillow_heif").register_heif_opener()
    if extension == "jxl":
        pytest.importorskip("pillow_jxl")
    if extension == "avif" and not features.check("avif"):
        pytest.skip("Pillow has no AVIF")
    buffer = io.BytesIO()
    Image.new("RGB", SIZE, "red").save(buffer, FORMATS[extension], **options)
    return buffer.getvalue()


def png_of_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b""))


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("form", ["torchrgb", "rgb8", "pil", "pilrgb"])
def test_a_picture_of_more_pixels_fails_and_one_of_as_many_is_decoded(extension: str, form: str) -> None:
    data = encoded(extension)
    SampleDecoder(image_decode=form, max_pixels=PIXELS).decode_part(extension, data)
    with pytest.raises(SampleError, match="48 × 40 pixels, more than the limit of 1,919") as raised:
        SampleDecoder(image_decode=form, max_pixels=PIXELS - 1).decode_part(extension, data)
    assert raised.value.part == extension
    assert "ENERGON_MAX_PIXELS" in (raised.value.hint or "")


def test_a_jpeg_for_the_gpu_is_refused_in_the_worker() -> None:
    decoder = SampleDecoder(image_decode="torchrgb8", image_decode_device="cuda", max_pixels=PIXELS)
    assert isinstance(decoder.decode_part("jpg", encoded("jpg")), EncodedImage)
    decoder = SampleDecoder(image_decode="torchrgb8", image_decode_device="cuda", max_pixels=PIXELS - 1)
    with pytest.raises(SampleError, match="more than the limit"):
        decoder.decode_part("jpg", encoded("jpg"))


def test_a_header_is_enough_to_refuse_a_picture() -> None:
    with pytest.raises(SampleError, match="8,000 × 10,000 pixels, more than the limit of 50,000,000"):
        SampleDecoder(max_pixels=50_000_000).decode_part("png", png_of_header(8_000, 10_000))


@pytest.mark.parametrize("size", [(60_000, 50_000), (1 << 20, 1 << 20)])
def test_a_jpeg_xl_is_refused_before_its_plugin_decodes_it(size: tuple[int, int]) -> None:
    pytest.importorskip("pillow_jxl")
    bits = 2 << 1 | (size[1] - 1) << 3 | 2 << 24 | (size[0] - 1) << 26  # sides of 18 bits
    if size[0] > 1 << 18:
        bits = 3 << 1 | (size[1] - 1) << 3 | 3 << 36 | (size[0] - 1) << 38  # of 30 bits
    data = b"\xff\x0a" + bits.to_bytes(12, "little") + bytes(100)
    assert jxl_size(data) == size
    with pytest.raises(SampleError, match="pixels, more than the limit of 178,956,970"):
        SampleDecoder().decode_part("jxl", data)


@pytest.mark.parametrize("size", [(8, 8), (64, 48), (300, 200), (1920, 1080), (50, 9000), (17, 31), (1200, 1000)])
@pytest.mark.parametrize("boxed", [False, True])
def test_the_size_of_a_jpeg_xl_is_read_from_its_header(size: tuple[int, int], boxed: bool) -> None:
    pytest.importorskip("pillow_jxl")
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 1
    options: dict[str, Any] = {"effort": 1} | ({"exif": exif.tobytes()} if boxed else {})
    Image.new("RGB", size).save(buffer, "JXL", **options)
    assert jxl_size(buffer.getvalue()) == size
    assert boxed == buffer.getvalue().startswith(b"\0\0\0\x0c")


def test_an_icon_whose_picture_is_larger_than_it_states_is_refused() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (48, 48)).save(buffer, "ICO", sizes=[(48, 48)])
    icon = bytearray(buffer.getvalue())
    icon[6:8] = bytes((16, 16))
    with pytest.warns(UserWarning, match="Image was not the expected size"), pytest.raises(SampleError, match="limit"):
        SampleDecoder(max_pixels=16 * 16).decode_part("ico", bytes(icon))


def test_the_limit_of_the_environment_holds_without_one_of_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pixel_limit() == 178_956_970
    monkeypatch.setenv("ENERGON_MAX_PIXELS", "1000")
    with pytest.raises(SampleError, match="more than the limit of 1,000"):
        SampleDecoder().decode_part("jpg", encoded("jpg"))
    SampleDecoder(max_pixels=PIXELS).decode_part("jpg", encoded("jpg"))
    monkeypatch.setenv("ENERGON_MAX_PIXELS", "many")
    with pytest.raises(ConfigError, match="expected a number of pixels in ENERGON_MAX_PIXELS, found 'many'"):
        SampleDecoder().decode_part("jpg", encoded("jpg"))


def test_a_limit_above_that_of_pillow_is_one_of_pillow_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(SampleError, match="exceeds limit of 200 pixels"):
        SampleDecoder().decode_part("png", encoded("png"))
    SampleDecoder(max_pixels=2 * PIXELS).decode_part("png", encoded("png"))


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1"])
def test_a_limit_that_is_no_number_of_pixels_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="expected max_pixels of a positive number"):
        SampleDecoder(max_pixels=value)


def test_the_limit_is_part_of_the_options_of_a_decoder_only_if_it_is_set() -> None:
    assert "max_pixels" not in SampleDecoder().config()
    assert SampleDecoder(**SampleDecoder(max_pixels=5).config()).max_pixels == 5
