"""Read the traits of a picture that training may treat unlike a viewer: frames, turns, bits, alpha and CMYK."""

from __future__ import annotations

import io
import warnings
from typing import BinaryIO, NamedTuple

from PIL import Image

from .open_picture import open_picture
from .picture_bits import picture_bits

_HEAD_BYTES = 64 * 1024  # of a JPEG; an Exif segment has at most as many
_EXIF, _ORIENTATION = b"Exif\0\0", 0x0112
_START_OF_FRAME = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_WEBP_ANIMATION_OR_EXIF, _WEBP_ALPHA = 0x0A, 0x10

TRAITS = {
    "frames": "with several frames, of which the first is read",
    "turned": "turned by EXIF, which is not applied",
    "deep": "with more than 8 bits a channel, which are scaled",
    "alpha": "with alpha, which RGB drops",
    "cmyk": "in CMYK",
}
"""Trait → what training does with such pictures, unless the decoder is set otherwise."""


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
    """Return one line about a picture that viewers turn; None if they do not, or if it cannot be read.

    Args:
        data: The file's bytes, or the first ones.
    """
    try:
        turn = _TURNS.get(picture_traits(io.BytesIO(data)).orientation)
    except Exception:  # noqa: BLE001 - damaged files raise many kinds
        return None
    return turn and f"shown as training reads it; by its EXIF orientation, viewers show it {turn}"


class PictureTraits(NamedTuple):
    """The traits of a picture.

    Attributes:
        frames: Number of frames or pages.
        orientation: The orientation of Exif, from 1 to 8; 1 is upright.
        bits: Bits of a channel.
        alpha: It has transparent pixels, or a channel for them.
        cmyk: Its pixels are CMYK.
    """

    frames: int = 1
    orientation: int = 1
    bits: int = 8
    alpha: bool = False
    cmyk: bool = False

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
        found = _jpeg(head) or _jpeg(head + file.read(_HEAD_BYTES))
        if found is not None:
            return found
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
    found = Image.Exif()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.load(exif)
            orientation = found.get(_ORIENTATION, 1)
    except Exception:  # noqa: BLE001 - damaged data raise many kinds
        return 1
    return orientation if orientation in range(1, 9) else 1


def _jpeg(head: bytes) -> PictureTraits | None:
    """Return the traits of a JPEG file; None if its header is longer or damaged, or it has several pictures."""
    found, at = None, 2
    orientation = 1
    while at + 4 <= len(head) and head[at] == 0xFF:
        marker, size_bytes = head[at + 1], int.from_bytes(head[at + 2 : at + 4], "big")
        segment = head[at + 4 : at + 2 + size_bytes]
        if marker == 0xDA:  # pixels follow
            return found and found._replace(orientation=orientation)
        if segment.startswith(b"MPF\0"):
            return None
        if segment.startswith(_EXIF):
            orientation = _orientation(segment)
        elif marker in _START_OF_FRAME and len(segment) >= 6:
            found = PictureTraits(bits=segment[0], cmyk=segment[5] == 4)
        at += 2 + size_bytes
    return None
