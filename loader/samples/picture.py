"""Reduce images of any kind and size to small RGB pictures."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import TrustError, error_text
from ..storage.protocol import limit_of_environment

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

_MODE_OF_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}
_INDEXED_MODES = ("1", "P", "PA")
_JPEG_QUALITY = 80  # of small pictures on pages, where higher ones show no difference
_MAX_SHOWN_PIXELS = 1 << 26  # a tensor of floats takes 22 bytes a pixel while it is made


class PictureError(Exception):
    """An image cannot be drawn; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image of known size that is decoded only when it is drawn.

    Attributes:
        width: Pixels.
        height: Pixels.
        load: Returns the RGB image, no side longer than the given number of pixels; raises ``PictureError``.
    """

    width: int
    height: int
    load: Callable[[int], Image]

    def jpeg(self, longest: int) -> bytes:
        """Return the image as a JPEG, no side longer than the given number of pixels.

        Raises:
            PictureError: It cannot be decoded.
        """
        encoded = io.BytesIO()
        self.load(longest).save(encoded, "JPEG", quality=_JPEG_QUALITY)
        return encoded.getvalue()


def most_shown_pixels() -> int:
    """Return the most pixels of a picture that is decoded in order to show a sample."""
    from ..parts.open_picture import PIXEL_LIMIT_VARIABLE

    return limit_of_environment(PIXEL_LIMIT_VARIABLE, _MAX_SHOWN_PIXELS, unit="pixels")


def image_facts(data: bytes) -> tuple[str, int, int, str]:
    """Read format, width, height and mode from an image file's header.

    Raises:
        PictureError: Pillow cannot read the image.
    """
    with _open(data) as image:
        return image.format or "?", image.width, image.height, image.mode


def is_too_large_to_show(data: bytes) -> bool:
    """Return True for an image file of more pixels than are decoded in order to show a sample."""
    with suppress(PictureError):
        _format, width, height, _mode = image_facts(data)
        return width * height > most_shown_pixels()
    return False


def encoded_picture(data: bytes) -> Picture:
    """Return a picture of an image file's bytes; JPEGs are decoded at a fraction of their size.

    Raises:
        PictureError: Pillow cannot read the image.
    """
    _format, width, height, _mode = image_facts(data)

    def load(longest: int) -> Image:
        with _open(data) as image:
            try:
                return shrink_to_rgb(image, longest)
            except Exception as error:  # a broken file may raise anything from a codec
                raise PictureError(error_text(error)) from error

    return Picture(width=width, height=height, load=load)


def array_picture(array: Any) -> Picture | None:
    """Return a picture of a decoded image: a numpy array or a tensor, (C, H, W), (H, W, C) or (H, W).

    Returns:
        None if the array does not have the shape of an image.
    """
    shape = tuple(int(size) for size in array.shape)
    if 0 in shape:
        return None
    # Guess the layout from the shape: (H, W), (C, H, W), or else (H, W, C).
    if len(shape) == 2:
        height, width = shape
        channels_first = False
    elif len(shape) == 3 and shape[0] in _MODE_OF_CHANNELS and (shape[2] not in _MODE_OF_CHANNELS or shape[1] > 4):
        _channels, height, width = shape
        channels_first = True
    elif len(shape) == 3 and shape[2] in _MODE_OF_CHANNELS:
        height, width, _channels = shape
        channels_first = False
    else:
        return None

    def load(longest: int) -> Image:
        # Rows and columns are skipped before anything is converted: a huge image costs as little as a small one.
        step = max(1, max(height, width) // max(1, 2 * longest))
        small = array[:, ::step, ::step] if channels_first else array[::step, ::step]
        try:
            return shrink_to_rgb(_array_to_image(small, channels_first=channels_first), longest)
        except Exception as error:  # arrays of unforeseen types
            raise PictureError(error_text(error)) from error

    return Picture(width=width, height=height, load=load)


def _open(data: bytes) -> Image:
    from PIL import Image as PillowImage, UnidentifiedImageError

    from .decoding.image_decode import identify_image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return identify_image(data)
    except TrustError as error:
        raise PictureError(error.message) from error
    except PillowImage.DecompressionBombError as error:
        raise PictureError("too many pixels to decode safely") from error
    except UnidentifiedImageError as error:
        raise PictureError(f"not an image (it starts with {data[:12]!r})") from error
    except Exception as error:  # a broken header may raise anything from a format's plugin
        raise PictureError(error_text(error)) from error


def shrink_to_rgb(image: Image, longest: int) -> Image:
    """Convert an image of any mode to RGB, with no side longer than ``longest``."""
    return _to_rgb(_shrink(image, longest))


def _shrink(image: Image, longest: int) -> Image:
    """Reduce an image so that no side is longer than ``longest``, decoding as little as the format allows."""
    from PIL import Image as PillowImage

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if max(image.size) <= longest:
            image.load()
            return image
        if image.mode in _INDEXED_MODES or image.mode.startswith(("I", "F")):
            # Pillow cannot interpolate these modes: nearest neighbours only.
            scale = longest / max(image.size)
            size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
            return image.resize(size, PillowImage.Resampling.NEAREST)
        image.thumbnail((longest, longest), PillowImage.Resampling.BILINEAR, reducing_gap=2.0)
        return image


def _to_rgb(image: Image) -> Image:
    import numpy as np
    from PIL import Image as PillowImage

    # Numbers of any range are scaled, transparent pixels get a grey ground.
    if image.mode.startswith("I") or image.mode == "F":
        return PillowImage.fromarray(_stretch(np.asarray(image))).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        ground = PillowImage.new("RGBA", rgba.size, (128, 128, 128, 255))
        return PillowImage.alpha_composite(ground, rgba).convert("RGB")
    return image.convert("RGB")


def _stretch(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Scale numbers of any range to 0–255; constant ones become mid-grey."""
    import numpy as np

    numbers = np.nan_to_num(values.astype(np.float64))
    low, high = float(numbers.min()), float(numbers.max())
    if high <= low:
        return np.full(numbers.shape, 128, dtype=np.uint8)
    spread: np.ndarray[Any, Any] = ((numbers - low) * (255.0 / (high - low))).astype(np.uint8)
    return spread


def _array_to_image(array: Any, *, channels_first: bool) -> Image:
    import numpy as np
    from PIL import Image as PillowImage

    detach = getattr(array, "detach", None)
    if detach is not None:  # a tensor; bfloat16 has no numpy type
        array = detach().cpu()
        array = array.float() if array.is_floating_point() else array
    pixels = np.asarray(array)  # (C, H, W), (H, W, C) or (H, W)
    if pixels.dtype != np.uint8:
        pixels = _to_bytes(pixels)
    if channels_first:  # Pillow interleaves planes several times faster than numpy
        planes = [PillowImage.fromarray(np.ascontiguousarray(plane)) for plane in pixels]
        return planes[0] if len(planes) == 1 else PillowImage.merge(_MODE_OF_CHANNELS[len(planes)], planes)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    return PillowImage.fromarray(np.ascontiguousarray(pixels))


def _to_bytes(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Scale numbers to 0–255: those from 0 to 1 by 255, others from their least to their greatest."""
    import numpy as np

    # Floats from 0 to 1, as models use them, keep their scale; all others are stretched.
    if pixels.dtype.kind in "fb":
        numbers = pixels if pixels.dtype.itemsize >= 4 else pixels.astype(np.float32)
        if not (np.isfinite(numbers.min()) and np.isfinite(numbers.max())):
            numbers = np.nan_to_num(numbers.astype(np.float64))
        if numbers.min() >= 0 and numbers.max() <= 1:
            scaled = numbers * numbers.dtype.type(255)
            return np.rint(scaled, out=scaled).astype(np.uint8)
    return _stretch(pixels)
