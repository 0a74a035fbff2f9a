"""Create thumbnails of encoded pictures."""

from __future__ import annotations

import io

import numpy as np
import simplejpeg
from PIL import Image

from ..picture import PictureError, encoded_picture

_MAX_PIXELS = 100_000_000  # of a picture that is decoded: a bomb ends here
_QUALITY = 80
_JPEG = b"\xff\xd8\xff"
_COLOURS = ("YCbCr", "Gray", "RGB")
_MIN_SCALE, _MAX_SCALE = 7 / 8, 5 / 4  # of the wanted size, which a decoder of JPEG hits in steps of an eighth


def make_thumbnail(data: bytes, longest: int) -> bytes:
    """Return a JPEG of a picture, whose longer side has about ``longest`` pixels, or less if the picture is smaller.

    A JPEG is decoded at a fraction of its size, and resized only if the result is more than an eighth smaller or a
    quarter larger than wanted: resizing takes longer than decoding and encoding together.

    Raises:
        PictureError: The picture is broken, or has more than 100 million pixels.
    """
    if data.startswith(_JPEG):
        made = _jpeg_thumbnail(data, longest)
        if made is not None:
            return made
    picture = encoded_picture(data)
    _check_size(picture.width, picture.height)
    kept = io.BytesIO()
    picture.load(longest).save(kept, "JPEG", quality=_QUALITY)
    return kept.getvalue()


def _jpeg_thumbnail(data: bytes, longest: int) -> bytes | None:
    """Return a thumbnail of a JPEG in a fraction of Pillow's time; None for one with other colours or with faults."""
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        _check_size(width, height)
        if colours not in _COLOURS:
            return None
        scale = min(1.0, longest / max(width, height))
        least = scale * _MIN_SCALE if scale < 1 else 1.0
        pixels = simplejpeg.decode_jpeg(
            data, "RGB", fastdct=True, min_height=_scaled(height, least), min_width=_scaled(width, least)
        )
    except ValueError:
        return None
    if max(pixels.shape) > longest * _MAX_SCALE:
        size = _scaled(width, scale), _scaled(height, scale)
        pixels = np.ascontiguousarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))
    made: bytes = simplejpeg.encode_jpeg(pixels, _QUALITY, "RGB", "420")
    return made


def _scaled(side: int, scale: float) -> int:
    return max(1, round(side * scale))


def _check_size(width: int, height: int) -> None:
    if width * height > _MAX_PIXELS:
        raise PictureError(f"the picture has {width} × {height} pixels; at most 100 million are decoded")
