"""Image bytes to pixels: each of webdataset's names for a kind of picture, with webdataset's pixels.

JPEGs go through simplejpeg, which runs the same libjpeg-turbo as Pillow with the same settings, a third faster.
Whatever it does not take as it is (CMYK, damage) and every other format goes through Pillow, so that both what decodes
and what fails is what it is in webdataset.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import simplejpeg
from PIL import Image

from ..trust import refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "IMAGE_FORMS",
    "ImageForm",
    "decode_image",
    "identify_image",
    "is_plain_jpeg",
    "looks_like_image",
    "open_image",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageForm:
    """What a picture is decoded to.

    Args:
        container: ``"numpy"`` (H, W, C), ``"torch"`` (C, H, W) or ``"pil"``; grey arrays and tensors are (H, W).
        floating: float32 in [0, 1] rather than uint8.
        mode: Pillow's name for the channels.
    """

    container: Literal["numpy", "torch", "pil"]
    floating: bool
    mode: Literal["L", "RGB", "RGBA"]


IMAGE_FORMS: Mapping[str, ImageForm] = {
    "l": ImageForm(container="numpy", floating=True, mode="L"),
    "l8": ImageForm(container="numpy", floating=False, mode="L"),
    "pil": ImageForm(container="pil", floating=False, mode="RGB"),
    "pill": ImageForm(container="pil", floating=False, mode="L"),
    "pilrgb": ImageForm(container="pil", floating=False, mode="RGB"),
    "pilrgba": ImageForm(container="pil", floating=False, mode="RGBA"),
    "rgb": ImageForm(container="numpy", floating=True, mode="RGB"),
    "rgb8": ImageForm(container="numpy", floating=False, mode="RGB"),
    "rgba": ImageForm(container="numpy", floating=True, mode="RGBA"),
    "rgba8": ImageForm(container="numpy", floating=False, mode="RGBA"),
    "torch": ImageForm(container="torch", floating=True, mode="RGB"),
    "torchl": ImageForm(container="torch", floating=True, mode="L"),
    "torchl8": ImageForm(container="torch", floating=False, mode="L"),
    "torchrgb": ImageForm(container="torch", floating=True, mode="RGB"),
    "torchrgb8": ImageForm(container="torch", floating=False, mode="RGB"),
    "torchrgba": ImageForm(container="torch", floating=True, mode="RGBA"),
    "torchrgba8": ImageForm(container="torch", floating=False, mode="RGBA"),
}
"""The names that ``image_decode`` may have."""

_PROGRAM_FORMATS = {"EPS": "is", "IPTC": "may hold"}
"""Formats that Pillow hands to another program (Ghostscript), or in which it opens a picture of any format."""

_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\x00", b"MM\x00*")


def decode_image(data: bytes, form: ImageForm, *, trusted: bool = False) -> Any:
    """Decode a picture.

    Args:
        data: The file's bytes.
        form: What to make of it.
        trusted: Also decode formats that are programs (EPS, which Ghostscript runs).

    Returns:
        A C-contiguous, writable array or tensor, or a Pillow image.

    Raises:
        TrustError: The picture is a program, and ``trusted`` is false.
        Exception: Whatever Pillow raises for data that is no picture, or a broken one.
    """
    if form.container == "pil":
        return open_image(data, trusted=trusted).convert(form.mode)
    if form.container == "torch" and form.mode == "RGB":
        planes = _jpeg_planes(data, floating=form.floating)
        if planes is not None:
            return planes
    pixels = _jpeg_pixels(data, form.mode)
    if pixels is None:
        # np.array copies: Pillow's own buffer is read-only.
        pixels = np.array(open_image(data, trusted=trusted).convert(form.mode))
    return _to_torch(pixels, form.floating) if form.container == "torch" else _to_numpy(pixels, form.floating)


def open_image(data: bytes, *, trusted: bool = False) -> Image.Image:
    """Open and load a picture with Pillow, which raises on anything amiss."""
    image = identify_image(data, trusted=trusted)
    image.load()
    return image


def identify_image(data: bytes, *, trusted: bool = False) -> Image.Image:
    """Open a picture with Pillow, which reads its header; the pixels are decoded when they are asked for.

    Raises:
        TrustError: The picture is a program, or may hold one, and ``trusted`` is false.
    """
    image = Image.open(io.BytesIO(data))
    if image.format in _PROGRAM_FORMATS and not trusted:
        raise refuse(f"an {image.format} picture {_PROGRAM_FORMATS[image.format]} a program that Ghostscript would run")
    return image


def is_plain_jpeg(data: bytes) -> bool:
    """Tell whether these bytes are a JPEG of RGB or grey pixels, of a size that Pillow takes without a warning."""
    if data[:3] != b"\xff\xd8\xff":
        return False
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return False
    limit = Image.MAX_IMAGE_PIXELS
    return colours in ("RGB", "YCbCr", "Gray") and (limit is None or height * width <= limit)


def looks_like_image(data: bytes) -> bool:
    """Tell by the first bytes whether this is a JPEG, PNG, GIF, TIFF or WebP."""
    return data.startswith(_MAGIC) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")


def _jpeg_pixels(data: bytes, mode: Literal["L", "RGB", "RGBA"]) -> NDArray[np.uint8] | None:
    """Decode a plain JPEG, uint8 (H, W[, C]); None where Pillow should."""
    if not is_plain_jpeg(data):
        return None
    try:
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "RGBA" if mode == "RGBA" else "RGB")
    except ValueError:
        return None  # damaged: Pillow is lenient with some damage and decides
    if mode == "L":
        # libjpeg's own grey is the Y channel; Pillow weighs the RGB pixels instead.
        return np.array(Image.fromarray(pixels).convert("L"))
    return pixels


def _jpeg_planes(data: bytes, *, floating: bool) -> Any:
    """Decode a plain JPEG to a tensor, (3, H, W); None where Pillow should.

    With a fourth byte a pixel is one integer, whose lowest byte numpy takes for all pixels at once: that takes half the
    time of moving three bytes each to their planes.
    """
    import torch

    from ...transport.batch_memory import new_array

    if not is_plain_jpeg(data):
        return None
    try:
        pixels = simplejpeg.decode_jpeg(data, "RGBX").view("<u4")[..., 0]  # (H, W)
    except ValueError:
        return None  # damaged: Pillow is lenient with some damage and decides
    planes = np.empty((3, *pixels.shape), np.uint8)
    for plane in planes:
        np.copyto(plane, pixels, casting="unsafe")
        pixels >>= 8
    return torch.from_numpy(_floating(planes, new_array(planes.shape, np.float32)) if floating else planes)


def _to_numpy(pixels: NDArray[np.uint8], floating: bool) -> NDArray[Any]:
    return _floating(pixels, np.empty(pixels.shape, np.float32)) if floating else pixels


def _to_torch(pixels: NDArray[np.uint8], floating: bool) -> Any:
    import torch

    from ...transport.batch_memory import new_array

    if pixels.ndim == 3:
        # Moving bytes and then converting beats converting and then moving floats.
        pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1))  # (C, H, W)
    return torch.from_numpy(_floating(pixels, new_array(pixels.shape, np.float32)) if floating else pixels)


def _floating(pixels: NDArray[np.uint8], into: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give values in [0, 1] of bytes."""
    into[...] = pixels
    into /= np.float32(255)
    return into
