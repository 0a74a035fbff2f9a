"""Thumbnails of pictures, which worker processes of the server make; and what these read."""

from __future__ import annotations

import signal
from collections import OrderedDict
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import simplejpeg
from PIL import Image

from ...errors import EnergonError, FormatError, error_text
from ...samples.picture import PictureError, encoded_picture
from .dataset import BrowsedDataset, DatasetAddress
from .worker_pool import WorkerPool

MAX_PART_BYTES = 256 << 20
"""Size of a part that is read as a whole."""


class PartAddress(NamedTuple):
    """A part for worker processes: its dataset, the number of its sample, and its name."""

    dataset: DatasetAddress
    number: int
    part: str


# ------------------------------------------------------------------------------------------ in a worker process


def read_part(address: PartAddress) -> bytes:
    """Read a part in a worker process; raise a ``KeyError`` for an unknown one."""
    dataset = open_dataset(address.dataset)
    location = dataset.part_place(address.number, address.part)
    if location.size_bytes > MAX_PART_BYTES:
        raise FormatError(
            f"the part has {location.size_bytes:,} bytes; at most {MAX_PART_BYTES:,} are read",
            shard=dataset.folder.storage.path(dataset.folder.index.shard_of(address.number).name),
            hint="save it, or print it with energon get",
        )
    return dataset.read(address.number, location)


@lru_cache(maxsize=8)
def open_dataset(address: DatasetAddress) -> BrowsedDataset:
    """Return a dataset that this worker process has opened, or opens."""
    dataset = BrowsedDataset("", address.ref)
    if dataset.version != address.version:
        raise FormatError(
            "the dataset was prepared again while it is browsed", at=address.ref.path, hint="load the page again"
        )
    return dataset


# ------------------------------------------------------------------------------------------------- thumbnails


_MAX_PIXELS = 100_000_000  # of a picture that is decoded: a bomb ends here
_QUALITY = 80  # of JPEG
_JPEG = b"\xff\xd8\xff"
_COLOURS = ("YCbCr", "Gray", "RGB")  # that the fast decoder converts
_MIN_SCALE, _MAX_SCALE = 7 / 8, 5 / 4  # of the wanted size, which a decoder of JPEG hits in steps of an eighth
_MAX_DECODE_S = 20  # a picture that takes longer ends its process


class ThumbnailPool(WorkerPool):
    """Worker processes that make thumbnails, and a bounded cache of thumbnails."""

    def __init__(self, *, workers: int, cache_bytes: int = 64 << 20) -> None:
        super().__init__(workers=workers, ahead=2)
        self._cache_bytes = cache_bytes
        self._kept_bytes = 0
        self._cache: OrderedDict[str, bytes] = OrderedDict()

    async def thumbnail(self, name: str, part: PartAddress, longest: int) -> bytes:
        """Return a thumbnail, from the cache if it is there; else a worker reads the picture and decodes it.

        Args:
            longest: Pixels of its longer side; see :func:`make_thumbnail`.

        Raises:
            KeyError: The sample has no such part.
        """
        known = self._cache.get(name)
        if known is not None:
            self._cache.move_to_end(name)
            return known
        made = await self.call(_thumbnail, part, longest)
        self._keep(name, made)
        return made

    def _keep(self, name: str, made: bytes) -> None:
        if name not in self._cache:
            self._cache[name] = made
            self._kept_bytes += len(made)
        # Drop what was not used for the longest time.
        while self._kept_bytes > self._cache_bytes:
            self._kept_bytes -= len(self._cache.popitem(last=False)[1])

    def killed(self) -> Exception:
        return PictureError(
            f"the process that decoded the picture was killed; it may take at most {_MAX_DECODE_S} seconds"
        )


# ------------------------------------------------------------------------------------------ in a worker process


def _thumbnail(picture: PartAddress, longest: int) -> bytes:
    try:
        data = read_part(picture)
        signal.alarm(_MAX_DECODE_S)
        return make_thumbnail(data, longest)
    except (EnergonError, PictureError, KeyError):
        raise
    except Exception as error:  # a codec may raise anything
        raise PictureError(error_text(error)) from error
    finally:
        signal.alarm(0)


def make_thumbnail(data: bytes, longest: int) -> bytes:
    """Return a JPEG of a picture, whose longer side has about ``longest`` pixels, or less if the picture is smaller.

    A JPEG is decoded at a fraction of its size, and resized only if the result is more than an eighth smaller or a
    quarter larger than wanted: resizing takes longer than decoding and encoding together.
    """
    if data.startswith(_JPEG):
        made = _jpeg_thumbnail(data, longest)
        if made is not None:
            return made
    picture = encoded_picture(data)
    _check_size(picture.width, picture.height)
    return picture.jpeg(longest)


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
