"""Read the traits of a picture that training may treat unlike a viewer: frames, turns, bits, alpha and CMYK."""

from __future__ import annotations

import io
import warnings
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..errors import SampleError
from .open_picture import open_picture

_HEAD_BYTES = 64 * 1024  # of a JPEG; an Exif segment has at most as many
_EXIF, _ORIENTATION = b"Exif\0\0", 0x0112
_START_OF_FRAME = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_WEBP_ANIMATION_OR_EXIF, _WEBP_ALPHA = 0x0A, 0x10

# Trait → what training does with such pictures, unless the decoder is set otherwise.
TRAITS = {
    "frames": "with several frames, of which the first is read",
    "turned": "turned by EXIF, which is not applied",
    "deep": "with more than 8 bits a channel, which are scaled",
    "alpha": "with alpha, which RGB drops",
    "cmyk": "in CMYK",
}


_TURNS = {
    2: "mirrored",
    3: "turned by 180°",
    4: "mirrored and turned by 180°",
    5: "mirrored and turned by 90° to the left",
    6: "turned by 90° to the right",
    7: "mirrored and turned by 90° to the right",
    8: "turned by 90° to the left",
}


def turn_note(data: bytes) -> str | None:
    """Return one line about a picture that viewers turn; None if they do not, or if it cannot be read."""
    try:
        turn = _TURNS.get(picture_traits(io.BytesIO(data)).orientation)
    except Exception:  # noqa: BLE001 - damaged files raise many kinds
        return None
    return turn and f"shown as training reads it; by its EXIF orientation, viewers show it {turn}"


class PictureTraits(NamedTuple):
    """The traits of a picture."""

    frames: int = 1  # number of frames or pages
    orientation: int = 1  # the orientation of Exif, from 1 to 8; 1 is upright
    bits: int = 8  # bits of a channel
    alpha: bool = False  # it has transparent pixels, or a channel for them
    cmyk: bool = False  # its pixels are CMYK

    @property
    def names(self) -> list[str]:
        """The names of :data:`TRAITS` that the picture has."""
        has = (self.frames > 1, self.orientation != 1, self.bits > 8, self.alpha, self.cmyk)
        return [name for name, is_so in zip(TRAITS, has, strict=True) if is_so]


def picture_traits(file: BinaryIO) -> PictureTraits:
    """Return the traits of a picture; of JPEG and most WebP files only the first bytes are read.

    Raises:
        ImportError: The format needs a plugin that is not installed.
        Exception: Any exception of Pillow, for a file that is not a picture.
    """
    head = file.read(4096)
    if head.startswith(b"\xff\xd8"):
        traits = _jpeg(head) or _jpeg(head + file.read(_HEAD_BYTES))
        if traits is not None:
            return traits
    if head[:4] == b"RIFF" and head[8:16] in (b"WEBPVP8 ", b"WEBPVP8L", b"WEBPVP8X"):
        flags = head[20] if head[15:16] == b"X" else _WEBP_ALPHA * (head[15:16] == b"L" and head[24] >> 4 & 1)
        if not flags & _WEBP_ANIMATION_OR_EXIF:
            return PictureTraits(alpha=bool(flags & _WEBP_ALPHA))
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about Exif data, and about pixels, which are not decoded here
        with open_picture(file) as image:
            return traits_of_image(image)


def traits_of_image(image: Image.Image) -> PictureTraits:
    """Return the traits of a picture that is open and not loaded: Pillow forgets the bits of channels then."""
    tags = getattr(image, "tag_v2", None)
    orientation = _orientation(image.info.get("exif", b"")) if tags is None else tags.get(_ORIENTATION, 1)
    return PictureTraits(
        bits=picture_bits(image).bits,
        frames=getattr(image, "n_frames", 1),
        orientation=orientation if orientation in range(1, 9) else 1,
        alpha=image.has_transparency_data,
        cmyk=image.mode == "CMYK",
    )


def _orientation(exif: bytes) -> int:
    tags = Image.Exif()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tags.load(exif)
            orientation = tags.get(_ORIENTATION, 1)
    except Exception:  # noqa: BLE001 - damaged data raise many kinds
        return 1
    return orientation if orientation in range(1, 9) else 1


def _jpeg(head: bytes) -> PictureTraits | None:
    """Return the traits of a JPEG file; None if its header is longer or damaged, or it has several pictures."""
    traits, at = None, 2
    orientation = 1
    while at + 4 <= len(head) and head[at] == 0xFF:
        marker, size_bytes = head[at + 1], int.from_bytes(head[at + 2 : at + 4], "big")
        segment = head[at + 4 : at + 2 + size_bytes]
        if marker == 0xDA:  # pixels follow
            return traits and traits._replace(orientation=orientation)
        if segment.startswith(b"MPF\0"):
            return None
        if segment.startswith(_EXIF):
            orientation = _orientation(segment)
        elif marker in _START_OF_FRAME and len(segment) >= 6:
            traits = PictureTraits(bits=segment[0], cmyk=segment[5] == 4)
        at += 2 + size_bytes
    return None


# Find the bit depth of pictures, and scale deep pictures to 8 or 16 bits.
#
# Pillow converts deep pictures by clipping: a pixel of 16 bits above 255 becomes white. The functions here scale
# instead: zero is black, and the largest value of the type is white.


# Scale values to the range of the target, or clip values at its end as Pillow does.
DeepPixels = Literal["scale", "clip"]

_BITS_PER_SAMPLE, _SAMPLE_FORMAT = 258, 339  # tags of TIFF
_SIGNED = 2  # as the sample format of TIFF


class PictureBits(NamedTuple):
    """The type of the values of a picture, as its file has it."""

    kind: Literal["unsigned", "signed", "float"]  # ``"unsigned"`` or ``"signed"`` integers, or ``"float"``
    bits: int  # bits of each channel: 1, 8, 12, 16 or 32

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
        deep: ``"scale"`` maps the largest value of the type to 255 and rounds: 16 bits become ``value / 257``. Negative
            values become black. ``"clip"`` keeps values up to 255 and makes larger values white, as Pillow does.
        float_range: The values of floats that become black and white. Values outside are clipped.

    Returns:
        A picture of mode ``L`` for a deep one.
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
        float_range: As for :func:`to_8_bits`.
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
