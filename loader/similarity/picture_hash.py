"""The perceptual hash of a picture: which of its low frequencies are strong.

A picture has two hashes, of all of it and of its central 92 %, so that a copy whose border was cut off has a hash in
common with it. The distance of two pictures is the least of the distances of their hashes. Pictures of one colour have
no hash: their frequencies are rounding, and would make all of them alike.

Pages of text, and other pictures that are mostly one colour, have similar low frequencies: their margins and lines. A
picture whose content is mostly in higher frequencies has three more hashes, of these. Two pictures that both have them
are as distant as the more distant of the two kinds of hashes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image

from ..errors import SkipSample
from ..samples.decoding.image_decode import ImageForm, convert_image, is_plain_jpeg, open_image

HASHES = 2
"""Hashes of the low frequencies of a picture; those of higher frequencies follow, or zeros."""

_FREQUENCIES = 12  # in each direction
_FIRST_HIGH = 8  # pages of text differ from here on, and a border that is cut off changes frequencies above 20
HASH_BITS = _FREQUENCIES**2 - 1
"""Bits of a hash: the mean of the picture, the lowest frequency, is in none."""

_MARGINS = (0.0, 0.04)  # of each side that is not hashed: a copy without 2 % or 5 % of each side is near one of the two
_HIGH_MARGINS = (0.0, 0.025, 0.05)  # a border cut off shifts short waves more
_LEAST_SIDE = 80  # pixels: the highest frequency has ten waves, which scaling must not change
_LOW_SHARE = 0.45  # of the variance, below which the high frequencies count; pages of text have from 0.05 to 0.35
_FLAT = 0.02  # levels of grey: frequencies of such strength change with each compression
_GREY = ImageForm(container="pil", floating=False, mode="L", background=(255, 255, 255))


def hash_picture(data: bytes) -> npt.NDArray[np.uint8]:
    """Return the hashes of an encoded picture: 90 bytes, 18 for each of five hashes, whose last bit is 0.

    Raises:
        SkipSample: The picture has hardly any content.
        Exception: The decoder refuses the picture.
    """
    pixels = _grey(data).astype(np.float32)
    bits = np.zeros((HASHES + len(_HIGH_MARGINS), HASH_BITS), np.bool_)
    if not _hash_into(bits[:HASHES], pixels, _MARGINS):
        raise SkipSample("the picture has hardly any content to compare")
    if _low_share(pixels) < _LOW_SHARE:
        _hash_into(bits[HASHES:], pixels, _HIGH_MARGINS, _FIRST_HIGH)
    return np.packbits(bits, axis=1).ravel()


def _hash_into(
    bits: npt.NDArray[np.bool_], pixels: npt.NDArray[np.float32], margins: tuple[float, ...], first: int = 0
) -> bool:
    """Set the bits of a hash for each margin; return False, and set none, if the frequencies are rounding."""
    height, width = pixels.shape
    for row, margin in enumerate(margins):
        waves = (_cosines(height, margin, first) @ pixels @ _cosines(width, margin, first).T).ravel()[1:]
        if row == 0 and _median(np.abs(waves)) <= _FLAT:
            return False
        np.greater(waves, _median(waves), out=bits[row])
    return True


def _low_share(pixels: npt.NDArray[np.float32]) -> float:
    """Return the share of the low frequencies in the variance of a picture."""
    height, width = pixels.shape
    power = (_cosines(height, 0.0, 0) @ pixels @ _cosines(width, 0.0, 0).T) ** 2
    # The variance of a frequency is its squared weight, twice as much for each direction in which it has waves.
    power[1:] *= 2
    power[:, 1:] *= 2
    return float((power.sum() - power[0, 0]) / pixels.var())


def _median(values: npt.NDArray[Any]) -> Any:
    middle = len(values) // 2
    return np.partition(values, middle)[middle]


def _grey(data: bytes) -> npt.NDArray[np.uint8]:
    """Decode a picture to grey pixels, shape (H, W); JPEGs at the smallest scale that is large enough."""
    if is_plain_jpeg(data):
        try:
            pixels: npt.NDArray[Any] = simplejpeg.decode_jpeg(
                data, "GRAY", fastdct=True, min_height=_LEAST_SIDE, min_width=_LEAST_SIDE, min_factor=1
            )
            return pixels[..., 0]
        except ValueError:
            pass  # damaged: Pillow tolerates some damage, so it decides
    picture: Image.Image = open_image(data)
    picture.draft("L", (_LEAST_SIDE, _LEAST_SIDE))  # decodes other JPEGs at a smaller scale, too
    factor = min(picture.size) // (2 * _LEAST_SIDE)
    grey = convert_image(picture, "L", _GREY)
    return np.asarray(grey.reduce(factor) if factor > 1 else grey)


@lru_cache(maxsize=1024)
def _cosines(size: int, margin: float, first: int) -> npt.NDArray[np.float32]:
    """Return the weights of pixels in each frequency, shape (frequencies, size); the margins have none."""
    start, length = margin * size, (1 - 2 * margin) * size
    edges = np.clip(np.arange(size + 1), start, start + length)
    middles = (edges[1:] + edges[:-1]) / 2 - start
    waves = np.cos(np.pi * np.arange(first, first + _FREQUENCIES)[:, None] * middles / length)
    return (waves * np.diff(edges) / length).astype(np.float32)
