"""Images in unusual formats and modes, written by Pillow from one photograph-like pattern."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache

import numpy as np
from PIL import Image


def pattern(height: int, width: int, channels: int = 3, *, seed: int = 0) -> np.ndarray:
    """Return smooth colours with some noise, so that chroma varies and entropy-coded data has long codes."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 120 * np.sin(x / (5 + 3 * c) + c) * np.cos(y / (7 + 2 * c)) for c in range(channels)]
    noise = np.random.default_rng(seed).normal(0, 12, (height, width, channels))
    pixels = np.clip(np.stack(waves, axis=-1) + noise, 0, 255).astype(np.uint8)
    return pixels if channels > 1 else pixels[..., 0]


def encode(image: Image.Image, format_name: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format_name, **options)
    return stream.getvalue()


def jpegs() -> Iterator[tuple[str, bytes]]:
    photo = Image.fromarray(pattern(61, 83))
    for subsampling in (0, 1, 2):
        yield f"jpeg-subsampling-{subsampling}", encode(photo, "JPEG", subsampling=subsampling, quality=90)
    for height, width in ((1, 1), (1, 17), (17, 1), (2, 3), (8, 8), (16, 16), (15, 33), (64, 7), (511, 513)):
        for subsampling in (0, 2):
            data = encode(Image.fromarray(pattern(height, width)), "JPEG", subsampling=subsampling)
            yield f"jpeg-{width}x{height}-subsampling-{subsampling}", data
    for quality in (1, 30, 100):
        yield f"jpeg-quality-{quality}", encode(photo, "JPEG", quality=quality)
    yield "jpeg-progressive", encode(photo, "JPEG", progressive=True)
    yield "jpeg-progressive-grey", encode(photo.convert("L"), "JPEG", progressive=True)
    yield "jpeg-optimized", encode(photo, "JPEG", optimize=True)
    yield "jpeg-restart-markers", encode(photo, "JPEG", restart_marker_blocks=1)
    yield "jpeg-restart-rows", encode(photo, "JPEG", restart_marker_rows=1, subsampling=2)
    yield "jpeg-grey", encode(photo.convert("L"), "JPEG")
    yield "jpeg-cmyk", encode(photo.convert("CMYK"), "JPEG")
    yield "jpeg-kept-rgb", encode(photo, "JPEG", keep_rgb=True)
    yield "jpeg-1x1-grey", encode(Image.new("L", (1, 1), 77), "JPEG")
    yield "jpeg-dpi-and-comment", encode(photo, "JPEG", dpi=(300, 300), comment=b"a comment")
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    yield "jpeg-exif-rotated", encode(photo, "JPEG", exif=exif)
    yield "jpeg-with-bytes-behind-it", encode(photo, "JPEG") + b"\0" * 100
    yield "jpeg-mpo", encode(photo, "MPO", save_all=True, append_images=[photo.rotate(180)])
    yield "jpeg-ycck", ycck(photo)


def ycck(photo: Image.Image) -> bytes:
    """Return a CMYK JPEG whose Adobe marker states YCCK; Pillow cannot write one."""
    data = encode(photo.convert("CMYK"), "JPEG")
    at = data.index(b"Adobe")
    return data[: at + 11] + b"\x02" + data[at + 12 :]


def others() -> Iterator[tuple[str, bytes]]:
    photo = Image.fromarray(pattern(31, 45))
    alpha = Image.fromarray(pattern(31, 45, 4))
    palette = photo.quantize(17)
    for name, image in (
        ("rgb", photo),
        ("grey", photo.convert("L")),
        ("alpha", alpha),
        ("grey-alpha", alpha.convert("LA")),
        ("palette", palette),
        ("one-bit", photo.convert("1")),
        ("1x1", Image.new("RGB", (1, 1), (1, 2, 3))),
        ("16-bit", Image.fromarray(pattern(31, 45, 1).astype(np.uint16) * 257)),
    ):
        yield f"png-{name}", encode(image, "PNG")
    yield "png-palette-transparent", encode(palette, "PNG", transparency=3)
    yield "png-palette-translucent", encode(palette, "PNG", transparency=bytes(range(0, 170, 10)))
    yield "png-rgb-transparent", encode(photo, "PNG", transparency=(1, 2, 3))
    yield "png-grey-transparent", encode(photo.convert("L"), "PNG", transparency=100)
    yield "gif", encode(photo, "GIF")
    yield "gif-transparent", encode(palette, "GIF", transparency=2)
    yield "gif-animated", encode(photo, "GIF", save_all=True, append_images=[photo.rotate(90)])
    yield "bmp", encode(photo, "BMP")
    yield "bmp-palette", encode(palette, "BMP")
    yield "webp", encode(photo, "WEBP")
    yield "webp-alpha-lossless", encode(alpha, "WEBP", lossless=True)
    yield "tiff", encode(photo, "TIFF")
    yield "tiff-cmyk", encode(photo.convert("CMYK"), "TIFF")
    yield "tiff-lab", encode(photo.convert("LAB"), "TIFF")
    yield "tiff-float", encode(photo.convert("F"), "TIFF")
    yield "tiff-int32", encode(photo.convert("I"), "TIFF")
    yield "tiff-jpeg", encode(photo, "TIFF", compression="jpeg")
    yield "ppm", encode(photo, "PPM")
    yield "tga", encode(alpha, "TGA")


@cache
def corpus() -> dict[str, bytes]:
    return dict(jpegs()) | dict(others())
