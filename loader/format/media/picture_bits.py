"""Find the bit depth of pictures, and scale deep pictures to 8 or 16 bits.

Pillow converts deep pictures by clipping: a pixel of 16 bits above 255 becomes white. The functions here scale instead:
zero is black, and the largest value of the type is white.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...errors import SampleError

DeepPixels = Literal["scale", "clip"]
"""Scale values to the range of the target, or clip values at its end as Pillow does."""

_BITS_PER_SAMPLE, _SAMPLE_FORMAT = 258, 339  # tags of TIFF
_SIGNED = 2  # as the sample format of TIFF


class PictureBits(NamedTuple):
    """The type of the values of a picture, as its file has it.

    Attributes:
        kind: ``"unsigned"`` or ``"signed"`` integers, or ``"float"``.
        bits: Bits of each channel: 1, 8, 12, 16 or 32.
    """

    kind: Literal["unsigned", "signed", "float"]
    bits: int

    @property
    def largest(self) -> int:
        """The value of a white pixel, for integers."""
        return (1 << (self.bits - (self.kind == "signed"))) - 1

    @property
    def is_deep(self) -> bool:
        """True if 8 bits cannot hold the values."""
        return self.bits > 8


def picture_bits(image: Image.Image) -> PictureBits:
    """Return the type of the values of a picture.

    Pillow reads several channels of 16 bits as 8 bits. That the file has 16 is known only until the pixels are loaded,
    so call this before ``load()``.

    Pictures of mode ``I`` have values of several types. The header of a TIFF file names the type. PNG and PGM files
    have 16 bits at most. A picture that was not read from a file has 16 bits if all values are from 0 to 65,535, else
    32 with a sign.

    >>> picture_bits(Image.new("I;16", (1, 1))), picture_bits(Image.new("RGB", (1, 1)))
    (PictureBits(kind='unsigned', bits=16), PictureBits(kind='unsigned', bits=8))
    """
    if image.mode == "F":
        return PictureBits("float", 32)
    if image.mode[0] != "I":
        raw = [_raw_mode(tile) for tile in getattr(image, "tile", None) or ()]
        return PictureBits("unsigned", 16 if any(";16" in mode for mode in raw) else 1 if image.mode == "1" else 8)
    tags: Any = getattr(image, "tag_v2", None)
    if tags is not None:
        bits = tags.get(_BITS_PER_SAMPLE, (16,))[0]
        return PictureBits("signed" if tags.get(_SAMPLE_FORMAT, (1,))[0] == _SIGNED else "unsigned", bits)
    if image.mode.startswith("I;16"):
        return PictureBits("unsigned", 16)
    if getattr(image, "format", None) in ("PNG", "PPM"):
        return PictureBits("unsigned", 16)
    extremes: Any = image.getextrema()
    is_short = extremes[0] >= 0 and extremes[1] <= 0xFFFF
    return PictureBits("unsigned", 16) if is_short else PictureBits("signed", 32)


def to_8_bits(
    image: Image.Image, *, deep: DeepPixels = "scale", float_range: tuple[float, float] | None = None
) -> Image.Image:
    """Return a picture with 8 bits for each channel; a picture that has them, or fewer, is returned as it is.

    Args:
        image: The picture.
        deep: ``"scale"`` maps the largest value of the type to 255 and rounds: 16 bits become ``value / 257``. Negative
            values become black. ``"clip"`` keeps values up to 255 and makes larger values white, as Pillow does.
        float_range: The values of floats that become black and white. Values outside are clipped.

    Returns:
        A picture of mode ``L`` for a deep one.

    Raises:
        SampleError: The picture has floats, which have no largest value, and there is no ``float_range``.
    """
    bits = picture_bits(image)
    if image.mode[0] not in "IF":
        return image
    if deep == "clip":
        values = np.nan_to_num(np.asarray(image).astype(np.float32))
        return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
    return Image.fromarray(_scaled(image, bits, 255, float_range).astype(np.uint8))


def as_16_bits(image: Image.Image, *, float_range: tuple[float, float] | None = None) -> Image.Image:
    """Return a picture of mode ``I;16`` for a deep one, scaled as by :func:`to_8_bits`; another picture as it is.

    Args:
        image: The picture.
        float_range: As for :func:`to_8_bits`.

    Raises:
        SampleError: As for :func:`to_8_bits`.
    """
    bits = picture_bits(image)
    if image.mode[0] not in "IF" or (image.mode == "I;16" and bits.bits == 16):
        return image
    return Image.fromarray(_scaled(image, bits, 0xFFFF, float_range).astype(np.uint16))


def _scaled(
    image: Image.Image, bits: PictureBits, white: int, float_range: tuple[float, float] | None
) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = np.asarray(image)
    scaled: npt.NDArray[Any]
    if bits.kind == "float":
        if float_range is None:
            raise SampleError(
                "the pixels are floats, which have no largest value to scale by",
                hint="name the values of black and white: --float-range LOW,HIGH, or float_range=(low, high)",
            )
        low, high = float_range
        scaled = np.rint(np.clip((np.nan_to_num(values, nan=low) - low) / (high - low), 0, 1) * white)
        return scaled
    if bits == PictureBits("unsigned", 32):
        values = values.view(np.uint32)  # Pillow reads these as signed
    wide = np.clip(values.astype(np.int64), 0, bits.largest)
    scaled = (wide * white + bits.largest // 2) // bits.largest
    return scaled


def _raw_mode(tile: Any) -> str:
    """Return the layout of pixels in a file, such as ``RGB;16B``."""
    arguments = tile[3]
    first = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return first if isinstance(first, str) else ""
