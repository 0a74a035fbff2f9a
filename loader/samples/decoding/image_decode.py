"""Decode images to the forms that webdataset names, with webdataset's pixels for channels of 8 bits.

Channels of 16 and 32 bits are scaled: Pillow clips them, so that nearly all pixels are white.

simplejpeg decodes JPEGs: it runs the same libjpeg-turbo as Pillow with the same settings, a third faster. Pillow
decodes all other formats, and JPEGs that simplejpeg refuses (CMYK, damage), so that results and errors equal
webdataset's.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image

from ...lazy_torch import torch
from ...parts.kinds import HEADER_BYTES, IMAGE, kind_of_bytes
from ...parts.open_picture import check_pixels, open_picture, pixel_limit
from ...parts.picture_traits import DeepPixels, as_16_bits, to_8_bits
from ...parts.unread_picture import UnreadPictureError, refuse_unread_picture
from ..batch_memory import new_array
from ..trust import is_trusted, refuse


class EncodedImage:
    """An image that :meth:`.DataLoader.to_device` decodes: the bytes of a JPEG, or the pixels of another format.

    Attributes:
        data: The bytes of a JPEG with RGB or grey pixels; None if the worker has decoded the image.
        pixels: uint8 or float32, (3, H, W); None for a JPEG.
        form: The form of the tensor.
    """

    __slots__ = ("data", "form", "pixels")

    def __init__(self, form: ImageForm, *, data: bytes | None = None, pixels: torch.Tensor | None = None) -> None:
        self.form = form
        self.data = data
        self.pixels = pixels

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the tensor: (3, H, W). Only the header is read."""
        if self.data is None:
            _, height, width = self.decode().shape
            return 3, height, width
        height, width, *_ = simplejpeg.decode_jpeg_header(self.data)
        return 3, int(height), int(width)

    def decode(self) -> torch.Tensor:
        """Decode on the CPU, to the pixels that ``image_decode_device="cpu"`` gives.

        Returns:
            Shape (3, H, W), uint8 or float32 as ``image_decode`` says.

        Raises:
            Exception: Any exception of Pillow, for a damaged image.
        """
        if self.pixels is not None:
            return self.pixels
        decoded: torch.Tensor = decode_image(self.data or b"", self.form)
        return decoded

    def pin_memory(self) -> EncodedImage:
        """Return the image with its pixels, if it has any, in page-locked memory."""
        return self if self.pixels is None else EncodedImage(self.form, pixels=self.pixels.pin_memory())

    def __repr__(self) -> str:
        return f"EncodedImage(shape={self.shape}, {'pixels' if self.data is None else f'{len(self.data)} bytes'})"


def keep_encoded(data: bytes, form: ImageForm, *, trust_code: bool = False) -> EncodedImage:
    """Keep a JPEG encoded; decode an image of another format.

    Args:
        data: The file's bytes.

    Raises:
        TrustError: As in :func:`.decode_image`.
    """
    form = replace(form, device="cpu")
    if is_plain_jpeg(data, form.max_pixels):
        return EncodedImage(form, data=data)
    return EncodedImage(form, pixels=decode_image(data, form, trust_code=trust_code))


ImageMode = Literal["L", "RGB", "RGBA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageForm:
    """The form that images are decoded to.

    Args:
        container: ``"numpy"`` (H, W, C), ``"torch"`` (C, H, W) or ``"pil"``; grey arrays and tensors are (H, W).
            ``"planes"`` is an array with the values and shape of ``"torch"``, and needs no torch.
        floating: float32 in [0, 1] rather than uint8.
        mode: Pillow's name for the channels; None keeps a Pillow image as it is.
        background: Colour under transparent pixels; None drops the alpha channel.
        deep: Scale channels of 16 and 32 bits, or clip them as Pillow does.
        float_range: The values of pictures of floats that become black and white; None refuses such pictures.
        max_pixels: Most pixels of a picture; None for :func:`~loader.parts.open_picture.pixel_limit`.
    """

    container: Literal["numpy", "torch", "planes", "pil"]
    floating: bool
    mode: ImageMode | None
    device: Literal["cpu", "cuda"] = "cpu"
    background: tuple[int, int, int] | None = None
    deep: DeepPixels = "scale"
    float_range: tuple[float, float] | None = None
    max_pixels: int | None = None


class PixelPlanes(np.ndarray[Any, np.dtype[Any]]):
    """Array in place of a tensor of pixels, (C, H, W) or (H, W)."""

    shown_as = "Tensor"


IMAGE_FORMS: Mapping[str, ImageForm] = {
    "l": ImageForm(container="numpy", floating=True, mode="L"),
    "l8": ImageForm(container="numpy", floating=False, mode="L"),
    "pil": ImageForm(container="pil", floating=False, mode=None),
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

_DEEP = ("I", "F")
"""Initials of Pillow's modes with more than 8 bits a channel, which are grey."""

_PROGRAM_FORMATS = {"EPS": "is", "IPTC": "may contain"}
"""Formats that Pillow passes to another program (Ghostscript), or that embed an image of any format."""


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
        ImportError: The format needs a plugin that is not installed.
        Exception: Any exception of Pillow, for data that is not an image, or a broken one.
    """
    # Forms of Pillow need no array.
    if form.mode is None:
        return open_image(data, trust_code=trust_code, max_pixels=form.max_pixels).copy()  # without the file's bytes
    if form.container == "pil":
        return convert_image(open_image(data, trust_code=trust_code, max_pixels=form.max_pixels), form.mode, form)
    # Plain JPEGs have faster decoders than Pillow; all other images follow.
    is_planar = form.container in ("torch", "planes")
    if is_planar and form.mode == "RGB":
        planes = _jpeg_planes(data, form)
        if planes is not None:
            return planes
    pixels: NDArray[Any] | None = _jpeg_pixels(data, form.mode, form.max_pixels)
    if pixels is None:
        image = open_image(data, trust_code=trust_code, max_pixels=form.max_pixels)
        if form.floating and form.deep == "scale" and image.mode[0] in _DEEP:
            pixels = _deep_pixels(image, form.mode, form)
        else:
            # np.array copies: Pillow's own buffer is read-only.
            pixels = np.array(convert_image(image, form.mode, form))
    if is_planar:
        return _to_planes(pixels, form)
    return _floating(pixels, np.empty(pixels.shape, np.float32)) if form.floating else pixels


def open_image(data: bytes, *, trust_code: bool = False, max_pixels: int | None = None) -> Image.Image:
    """Open and decode an image with Pillow, which raises on any damage."""
    image = identify_image(data, trust_code=trust_code, max_pixels=max_pixels)
    try:
        image.load()
    except ValueError:  # of layouts that Pillow learns only here
        refuse_unread_picture(io.BytesIO(data))
        raise
    check_pixels(*image.size, pixel_limit(max_pixels))  # icons may hold a larger picture than they state
    return image


def identify_image(data: bytes, *, trust_code: bool = False, max_pixels: int | None = None) -> Image.Image:
    """Open an image with Pillow, which reads its header; the pixels are decoded on first access.

    Raises:
        TrustError: The image is a program, or may contain one, and ``trust_code`` is false.
    """
    image = open_picture(io.BytesIO(data), max_pixels=max_pixels)
    if image.format in _PROGRAM_FORMATS and not is_trusted(trust_code):
        raise refuse(f"an {image.format} image {_PROGRAM_FORMATS[image.format]} a program that Ghostscript would run")
    return image


def is_plain_jpeg(data: bytes, max_pixels: int | None = None) -> bool:
    """Return True for a JPEG of RGB or grey pixels, and of no more than ``max_pixels`` of them."""
    if data[:3] != b"\xff\xd8\xff":
        return False
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return False
    return colours in ("RGB", "YCbCr", "Gray") and height * width <= pixel_limit(max_pixels)


def looks_like_image(data: bytes) -> bool:
    """Return True if the data begins like a picture in a format that has a part name."""
    kind = kind_of_bytes(data[:HEADER_BYTES])
    return kind.kind == "image" and kind.extension in IMAGE


def convert_image(image: Image.Image, mode: ImageMode, form: ImageForm) -> Image.Image:
    """Convert an image to channels of 8 bits, on the background that the form has.

    Raises:
        UnreadPictureError: Its pixels are floats, and the form has no range of them.
    """
    if image.mode[0] in _DEEP and form.deep == "scale":
        _check_floats(image, form)
        image = to_8_bits(image, float_range=form.float_range)
    if form.background is not None and mode != "RGBA" and image.has_transparency_data:
        opaque = Image.new("RGBA", image.size, form.background)
        opaque.alpha_composite(image.convert("RGBA"))
        image = opaque
    return image.convert(mode)


def _deep_pixels(image: Image.Image, mode: ImageMode, form: ImageForm) -> NDArray[np.uint16]:
    """Return a grey image of 16 or 32 bits with 16 bits, uint16 (H, W[, C])."""
    _check_floats(image, form)
    grey: NDArray[np.uint16] = np.array(as_16_bits(image, float_range=form.float_range))
    if mode == "L":
        return grey
    channels = [grey, grey, grey] if mode == "RGB" else [grey, grey, grey, np.full_like(grey, 0xFFFF)]
    return np.stack(channels, axis=-1)


def _check_floats(image: Image.Image, form: ImageForm) -> None:
    if image.mode == "F" and form.float_range is None:
        raise UnreadPictureError(
            "its pixels are floats, which have no largest value to scale by: pass"
            " SampleDecoder(float_range=(black, white)), or image_decode='pil', which keeps them"
        )


def _jpeg_pixels(data: bytes, mode: ImageMode, max_pixels: int | None) -> NDArray[np.uint8] | None:
    """Decode a plain JPEG, uint8 (H, W[, C]); return None where Pillow must decode."""
    if not is_plain_jpeg(data, max_pixels):
        return None
    try:
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "RGBA" if mode == "RGBA" else "RGB")
    except ValueError:
        return None  # damaged: Pillow tolerates some damage, so it decides
    if mode == "L":
        # libjpeg returns the Y channel as grey; Pillow computes grey from RGB, and its pixels count.
        return np.array(Image.fromarray(pixels).convert("L"))
    return pixels


def _jpeg_planes(data: bytes, form: ImageForm) -> Any:
    """Decode a plain JPEG to a tensor or array, (3, H, W); return None where Pillow must decode.

    With a fourth byte each pixel is one integer, and numpy takes one channel of all pixels at once: half the time of
    transposing three bytes a pixel.
    """
    if not is_plain_jpeg(data, form.max_pixels):
        return None
    try:
        pixels = simplejpeg.decode_jpeg(data, "RGBX").view("<u4")[..., 0]  # (H, W)
    except ValueError:
        return None  # damaged: Pillow tolerates some damage, so it decides
    if form.floating:
        return _contained(_float_planes(pixels), form)
    planes = np.empty((3, *pixels.shape), np.uint8)
    for plane in planes:
        np.copyto(plane, pixels, casting="unsafe")
        pixels >>= 8
    return _contained(planes, form)


def _float_planes(pixels: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Convert the lowest three bytes of integers, which are overwritten, to floats in [0, 1], (3, H, W).

    A byte stays at its place in the integer: the quotient of 256 times the level and 256 times 255 is the same float.
    """
    planes = new_array((3, *pixels.shape), np.float32)
    # The last plane, and at last the pixels themselves, hold the bytes of a channel: more memory would leave the cache.
    for plane, shift, channel in zip(planes, (0, 8, 16), (planes[2].view("<u4"),) * 2 + (pixels,), strict=True):
        np.bitwise_and(pixels, 0xFF << shift, out=channel)
        # numpy converts and divides some thousand integers at a time; those with a sign convert faster.
        np.divide(channel.view("<i4"), np.float32(0xFF << shift), out=plane, dtype=np.float32)
    return planes


def _to_planes(pixels: NDArray[Any], form: ImageForm) -> Any:
    if pixels.ndim == 3:
        # Transposing bytes before the conversion is faster than transposing floats after it.
        pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1))  # (C, H, W)
    if form.floating:
        pixels = _floating(pixels, new_array(pixels.shape, np.float32))
    return _contained(pixels, form)


def _contained(planes: NDArray[Any], form: ImageForm) -> Any:
    return torch.from_numpy(planes) if form.container == "torch" else planes.view(PixelPlanes)


def _floating(pixels: NDArray[Any], into: NDArray[np.float32]) -> NDArray[np.float32]:
    """Convert unsigned integers to floats in [0, 1]."""
    into[...] = pixels
    into /= np.float32(np.iinfo(pixels.dtype).max)
    return into
