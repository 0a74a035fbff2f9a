"""The perceptual hash of a picture: which of its low frequencies are strong.

A picture has two hashes, of all of it and of its central 90 %, so that a copy whose border was cut off has a hash in
common with it. The distance of two pictures is the least of the distances of their hashes. Pictures of one colour have
no hash: their frequencies are rounding, and would make all of them alike.
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
"""Hashes of a picture."""

_FREQUENCIES = 12  # in each direction
HASH_BITS = _FREQUENCIES**2 - 1
"""Bits of a hash: the mean of the picture, the lowest frequency, is in none."""

_MARGINS = (0.0, 0.05)  # of each side that is not hashed
_LEAST_SIDE = 40  # pixels: the highest frequency has six waves, which scaling must not change
_FLAT = 0.02  # levels of grey: frequencies of such strength change with each compression
_GREY = ImageForm(container="pil", floating=False, mode="L", background=(255, 255, 255))


def hash_picture(data: bytes) -> npt.NDArray[np.uint8]:
    """Return the hashes of an encoded picture: 36 bytes, 18 for each hash, whose last bit is 0.

    Raises:
        SkipSample: The picture has hardly any content.
        Exception: The decoder refuses the picture.
    """
    pixels = _grey(data).astype(np.float32)
    height, width = pixels.shape
    bits = np.empty((HASHES, HASH_BITS), np.bool_)
    for row, margin in enumerate(_MARGINS):
        waves = (_cosines(height, margin) @ pixels @ _cosines(width, margin).T).ravel()[1:]
        if row == 0 and _median(np.abs(waves)) <= _FLAT:
            raise SkipSample("the picture has hardly any content to compare")
        np.greater(waves, _median(waves), out=bits[row])
    return np.packbits(bits, axis=1).ravel()


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
def _cosines(size: int, margin: float) -> npt.NDArray[np.float32]:
    """Return the weights of pixels in each frequency, shape (frequencies, size); the margins have none."""
    start, length = margin * size, (1 - 2 * margin) * size
    edges = np.clip(np.arange(size + 1), start, start + length)
    middles = (edges[1:] + edges[:-1]) / 2 - start
    waves = np.cos(np.pi * np.arange(_FREQUENCIES)[:, None] * middles / length)
    return (waves * np.diff(edges) / length).astype(np.float32)
