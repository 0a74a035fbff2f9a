"""Verify, turn, resize and encode pictures as requested; other pictures keep their bytes."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from PIL import Image, UnidentifiedImageError

from ...errors import SampleError, plural
from ...parts.open_picture import open_picture
from ...parts.picture_traits import PictureBits, as_16_bits, picture_bits, to_8_bits
from ..annotations.coordinates import SWAPS, TRANSPOSES, PictureChange, Size
from ..writing.shard_file import FileContents, PartContents

PictureFormat = Literal["jpg", "png", "webp"]

PictureLoss = Literal["bits_scaled", "alpha_composed", "frames_dropped", "cmyk_converted"]
"""What a picture loses when it is encoded again."""

_PILLOW_NAMES = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}
_ORIENTATION = 0x0112  # of EXIF
_SUBFILE_TYPE, _IS_SMALL_COPY = 254, 1  # of TIFF: pages that are the same picture in a smaller size
PLAIN_MODES = {
    "jpg": ("L", "RGB", "CMYK"),
    "png": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
    "webp": ("RGB", "RGBA"),
}
"""Format → modes of Pillow that it holds without losses but those of its compression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureOptions:
    """Settings for the pictures of samples.

    Attributes:
        verify: Decode each picture with all of its frames, so that a damaged one fails its row.
        max_side: Shrink larger pictures to this length of their longer side, in pixels; None keeps sizes.
        format: Encode pictures of other formats in this one; None keeps formats.
        quality: Quality of JPEG and WebP, from 1 to 100.
        orient: Turn pictures as their EXIF orientation says, and encode those again; False keeps pixels and EXIF.
        pages: A TIFF picture of several pages stays one part, or ``"split"`` makes a part of each page.
        frames: A picture with several frames that would be encoded again fails its row, or ``"first"`` keeps one.
        background: Color in red, green and blue that transparent pixels get in a format without alpha.
        float_range: Values that become black and white in pictures of floats; None fails rows whose picture of floats
        would be encoded again.
        geometry: Coordinates that no longer fit their picture, and whose layout is unknown, fail the row, or
            ``"ignore"`` writes them as they are.
    """

    verify: bool = False
    max_side: int | None = None
    format: PictureFormat | None = None
    quality: int = 90
    orient: bool = False
    pages: Literal["keep", "split"] = "keep"
    frames: Literal["refuse", "first"] = "refuse"
    background: tuple[int, int, int] = (255, 255, 255)
    float_range: tuple[float, float] | None = None
    geometry: Literal["refuse", "ignore"] = "refuse"

    @property
    def keeps_bytes(self) -> bool:
        """True if no picture is decoded."""
        return not (self.verify or self.max_side or self.format or self.orient or self.pages == "split")


class ConvertedPicture(NamedTuple):
    """A picture as it is written.

    Attributes:
        change: Its turn and resize; None if its pixels stay where they are.
    """

    name: str
    data: bytes | FileContents
    change: PictureChange | None = None
    losses: Sequence[PictureLoss] = ()


def convert_picture(
    name: str,
    data: bytes | FileContents,
    options: PictureOptions,
    *,
    is_mask: bool = False,
    turned_like: PictureChange | None = None,
) -> ConvertedPicture:
    """Return a picture as it is written.

    Args:
        is_mask: The values of pixels are classes or distances: they are not mixed, scaled or encoded with losses.
        turned_like: The change of the picture that a mask belongs to.
    """
    try:
        with opened_picture(data) as picture:
            bits = picture_bits(picture)
            frames = _load(picture, all_frames=options.verify)
            converted = _converted(name, picture, bits, frames, options, turned_like, is_mask=is_mask)
            if converted is not None:
                return converted
    except SampleError as error:
        raise SampleError(error.message, part=name, at=name, hint=error.hint) from error
    except UNREADABLE as error:
        # Pillow names the address of the file object, which differs in each run.
        what = "its format is unknown" if isinstance(error, UnidentifiedImageError) else error
        raise SampleError(f"not a picture that can be decoded: {what}", part=name) from error
    return ConvertedPicture(name, data)


@contextmanager
def opened_picture(data: PartContents) -> Iterator[Any]:
    """Open a picture without warnings; a file is at its start afterwards."""
    file: Any = data.file if isinstance(data, FileContents) else io.BytesIO(data)
    try:
        with warnings.catch_warnings(action="ignore"), open_picture(file) as picture:
            yield picture
    finally:
        file.seek(0)


UNREADABLE = (
    UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError,
    LookupError, TypeError, OverflowError, ImportError
)  # fmt: skip
"""What Pillow raises for damaged files and damaged metadata; the last one if a package of its format is missing."""


def upright_size(data: PartContents) -> Size:
    """Return width and height of a picture in pixels, as programs show it; only its header is read."""
    try:
        with opened_picture(data) as picture:
            width, height = picture.size
            return (height, width) if picture.getexif().get(_ORIENTATION) in SWAPS else (width, height)
    except UNREADABLE as error:
        raise SampleError(f"not a picture whose size can be read: {error}") from error


def _load(picture: Image.Image, *, all_frames: bool) -> int:
    """Decode a picture, or all of its frames; return the number of frames, without smaller copies of the first."""
    count = count_frames(picture)
    # Only decoding shows whether a frame is damaged.
    if all_frames and picture.format != "PSD":
        for frame in range(1, getattr(picture, "n_frames", 1)):
            picture.seek(frame)
            picture.load()
        if getattr(picture, "n_frames", 1) > 1:
            picture.seek(0)
    picture.load()
    return count


def count_frames(picture: Image.Image) -> int:
    """Return the number of frames or pages of an open picture, without smaller copies of the first."""
    count = 1 if picture.format == "PSD" else getattr(picture, "n_frames", 1)  # the frames of PSD are layers
    copies = 0
    # Previews of the first frame may be stored as further frames.
    for frame in range(1, count):
        if picture.format == "TIFF":
            picture.seek(frame)
        copies += is_small_copy(picture, frame)
    if count > 1 and picture.format == "TIFF":
        picture.seek(0)
    return count - copies


def is_small_copy(picture: Any, frame: int) -> bool:
    """Return True if a later frame is the first one in a smaller size; a TIFF picture is at this frame."""
    if picture.format == "TIFF":
        return bool(picture.tag_v2.get(_SUBFILE_TYPE, 0) & _IS_SMALL_COPY)
    if picture.format == "MPO":
        return "Thumbnail" in str(picture.mpinfo[0xB002][frame]["Attribute"]["MPType"])
    return False


def _converted(  # noqa: PLR0917 - called at one place
    name: str,
    picture: Image.Image,
    bits: PictureBits,
    frames: int,
    options: PictureOptions,
    turned_like: PictureChange | None,
    *,
    is_mask: bool,
) -> ConvertedPicture | None:
    """Return a decoded picture as it is written; None if it keeps its bytes."""
    # Find out what changes.
    original = "jpg" if picture.format in ("JPEG", "MPO") else (picture.format or "").lower()
    exif, stored = picture.getexif(), picture.size
    # A mask without EXIF is turned like its picture.
    orientation = exif.get(_ORIENTATION, 1)
    if is_mask and turned_like is not None and orientation == 1:
        orientation = _orientation_of_mask(picture, turned_like)
    is_turned = options.orient and orientation in TRANSPOSES
    is_shrunk = options.max_side is not None and max(stored) > options.max_side
    wanted = (None if is_mask else options.format) or original
    if not is_turned and not is_shrunk and wanted == original:
        return None
    if is_mask or wanted not in _PILLOW_NAMES:
        wanted = "png"  # without losses; and Pillow does not write all formats that it reads
    # Change mode, orientation and size.
    losses: list[PictureLoss] = []
    if frames > 1:
        if options.frames == "refuse":
            raise SampleError(f"has {plural(frames, 'frame')}, of which one would be written; --frames first allows it")
        losses.append("frames_dropped")
    changed = _mask(picture) if is_mask else _with_mode(picture, wanted, bits, options, losses)
    if is_turned:
        changed = changed.transpose(TRANSPOSES[orientation])
        exif.pop(_ORIENTATION, None)
    if is_shrunk and options.max_side is not None:
        resample = Image.Resampling.NEAREST if is_mask else Image.Resampling.LANCZOS
        changed.thumbnail((options.max_side, options.max_side), resample)
    # Encode it.
    data, profile = io.BytesIO(), picture.info.get("icc_profile")
    changed.save(data, _PILLOW_NAMES[wanted], quality=options.quality, exif=exif, icc_profile=profile)
    first, dot, _ = name.rpartition(".")
    change = None
    if is_turned or is_shrunk:
        orientation = orientation if orientation in TRANSPOSES else 1
        change = PictureChange(stored=stored, written=changed.size, orientation=orientation, is_turned=is_turned)
    return ConvertedPicture(
        name if wanted == original else f"{first}{dot}{wanted}", data.getvalue(), change, tuple(losses)
    )


def _with_mode(
    original: Image.Image, wanted: str, bits: PictureBits, options: PictureOptions, losses: list[PictureLoss]
) -> Image.Image:
    """Return a picture in a mode that the wanted format can hold, and note what is lost."""
    picture = original
    # Scale deep values, before they are mixed with those of neighbours.
    if bits.is_deep:
        keeps_16 = wanted == "png" and picture.mode[0] in "IF"
        scale = as_16_bits if keeps_16 else to_8_bits
        picture = scale(picture, float_range=options.float_range)
        if not keeps_16 or bits.kind != "unsigned" or bits.bits > 16:
            losses.append("bits_scaled")
    # Compose transparent pixels on the background.
    if wanted == "jpg" and picture.has_transparency_data:
        is_gray = picture.mode in ("1", "L", "LA") and len(set(options.background)) == 1
        picture = picture.convert("RGBA")
        if cast("tuple[int, int]", picture.getchannel("A").getextrema())[0] < 255:
            losses.append("alpha_composed")
        ground = Image.new("RGBA", picture.size, options.background)
        picture = Image.alpha_composite(ground, picture).convert("L" if is_gray else "RGB")
    # Convert modes that the format lacks, and palettes, whose entries cannot be mixed by a resize.
    modes = PLAIN_MODES[wanted]
    if picture.mode == "CMYK" and "CMYK" not in modes:
        losses.append("cmyk_converted")
        original.info.pop("icc_profile", None)  # describes CMYK
    if picture.mode not in modes or (picture.mode in ("1", "P") and options.max_side):
        has_alpha = picture.has_transparency_data and wanted != "jpg"
        gray = picture.mode in ("1", "L", "LA") and "L" in modes
        picture = picture.convert(("LA" if gray else "RGBA") if has_alpha else ("L" if gray else "RGB"))
    return picture


def _mask(original: Image.Image) -> Image.Image:
    """Return a copy that PNG can hold, with the same values."""
    picture = original.copy()
    if picture.mode == "F":
        raise SampleError("is a mask of floats, which PNG does not hold; write it as .npy")
    # Deep integers must fit into the 16 bits of PNG.
    if picture.mode[0] == "I" and picture.mode != "I;16":
        low, high = picture.getextrema() if picture.mode == "I" else (0, 0)
        if cast("float", low) < 0 or cast("float", high) > 0xFFFF:
            raise SampleError("is a mask with values beyond 16 bits, which PNG does not hold; write it as .npy")
        picture = as_16_bits(picture)  # a copy has the type that fits its values, so they are not scaled
    return picture


def _orientation_of_mask(mask: Image.Image, picture: PictureChange) -> int:
    """Return the orientation of a mask: its picture's, if it was drawn on the pixels as they are stored."""
    width, height = picture.stored
    is_upright = (mask.width > mask.height) != (width > height) and picture.orientation >= 5
    return 1 if is_upright or not picture.is_turned else picture.orientation
