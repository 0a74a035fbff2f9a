"""Decode images to the forms that webdataset names, with webdataset's pixels.

simplejpeg decodes JPEGs: it runs the same libjpeg-turbo as Pillow with the same settings, a third faster. Pillow
decodes all other formats, and JPEGs that simplejpeg refuses (CMYK, damage), so that results and errors equal
webdataset's.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import simplejpeg
from PIL import Image

from ..trust import is_trusted, refuse

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
    """The form that images are decoded to.

    Args:
        container: ``"numpy"`` (H, W, C), ``"torch"`` (C, H, W) or ``"pil"``; grey arrays and tensors are (H, W).
        floating: float32 in [0, 1] rather than uint8.
        mode: Pillow's name for the channels.
        device: Where JPEGs are decoded: by a worker on the CPU, or those of a batch on the GPU.
    """

    container: Literal["numpy", "torch", "pil"]
    floating: bool
    mode: Literal["L", "RGB", "RGBA"]
    device: Literal["cpu", "cuda"] = "cpu"


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
"""The forms by their names, the values of ``image_decode``."""

_PROGRAM_FORMATS = {"EPS": "is", "IPTC": "may contain"}
"""Formats that Pillow passes to another program (Ghostscript), or that embed an image of any format."""

_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\x00", b"MM\x00*")


def decode_image(data: bytes, form: ImageForm, *, trust_code: bool = False) -> Any:
    """Decode an image.

    Args:
        data: The file's bytes.
        form: The form of the result.
        trust_code: Also decode formats that are programs (EPS, which Ghostscript runs).

    Returns:
        A C-contiguous, writable array or tensor, or a Pillow image.

    Raises:
        TrustError: The image is a program, and ``trust_code`` is false.
        Exception: Any exception of Pillow, for data that is not an image, or a broken one.
    """
    if form.container == "pil":
        return open_image(data, trust_code=trust_code).convert(form.mode)
    if form.container == "torch" and form.mode == "RGB":
        planes = _jpeg_planes(data, floating=form.floating)
        if planes is not None:
            return planes
    pixels = _jpeg_pixels(data, form.mode)
    if pixels is None:
        # np.array copies: Pillow's own buffer is read-only.
        pixels = np.array(open_image(data, trust_code=trust_code).convert(form.mode))
    return _to_torch(pixels, form.floating) if form.container == "torch" else _to_numpy(pixels, form.floating)


def open_image(data: bytes, *, trust_code: bool = False) -> Image.Image:
    """Open and decode an image with Pillow, which raises on any damage."""
    image = identify_image(data, trust_code=trust_code)
    image.load()
    return image


def identify_image(data: bytes, *, trust_code: bool = False) -> Image.Image:
    """Open an image with Pillow, which reads its header; the pixels are decoded on first access.

    Raises:
        TrustError: The image is a program, or may contain one, and ``trust_code`` is false.
    """
    image = Image.open(io.BytesIO(data))
    if image.format in _PROGRAM_FORMATS and not is_trusted(trust_code):
        raise refuse(f"an {image.format} image {_PROGRAM_FORMATS[image.format]} a program that Ghostscript would run")
    return image


def is_plain_jpeg(data: bytes) -> bool:
    """Return True for a JPEG of RGB or grey pixels, of a size that Pillow accepts without a warning."""
    if data[:3] != b"\xff\xd8\xff":
        return False
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return False
    limit = Image.MAX_IMAGE_PIXELS
    return colours in ("RGB", "YCbCr", "Gray") and (limit is None or height * width <= limit)


def looks_like_image(data: bytes) -> bool:
    """Return True if the first bytes are those of a JPEG, PNG, GIF, TIFF or WebP."""
    return data.startswith(_MAGIC) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")


def _jpeg_pixels(data: bytes, mode: Literal["L", "RGB", "RGBA"]) -> NDArray[np.uint8] | None:
    """Decode a plain JPEG, uint8 (H, W[, C]); return None where Pillow must decode."""
    if not is_plain_jpeg(data):
        return None
    try:
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "RGBA" if mode == "RGBA" else "RGB")
    except ValueError:
        return None  # damaged: Pillow tolerates some damage, so it decides
    if mode == "L":
        # libjpeg returns the Y channel as grey; Pillow computes grey from RGB, and its pixels count.
        return np.array(Image.fromarray(pixels).convert("L"))
    return pixels


def _jpeg_planes(data: bytes, *, floating: bool) -> Any:
    """Decode a plain JPEG to a tensor, (3, H, W); return None where Pillow must decode.

    With a fourth byte each pixel is one integer, and numpy copies the lowest bytes of all pixels at once. This takes
    half the time of transposing three bytes a pixel.
    """
    import torch

    from ...transport.batch_memory import new_array

    if not is_plain_jpeg(data):
        return None
    try:
        pixels = simplejpeg.decode_jpeg(data, "RGBX").view("<u4")[..., 0]  # (H, W)
    except ValueError:
        return None  # damaged: Pillow tolerates some damage, so it decides
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
        # Transposing bytes before the conversion is faster than transposing floats after it.
        pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1))  # (C, H, W)
    return torch.from_numpy(_floating(pixels, new_array(pixels.shape, np.float32)) if floating else pixels)


def _floating(pixels: NDArray[np.uint8], into: NDArray[np.float32]) -> NDArray[np.float32]:
    """Convert bytes to floats in [0, 1]."""
    into[...] = pixels
    into /= np.float32(255)
    return into
