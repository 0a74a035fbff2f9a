"""Tokens of pictures in published vision-language models, as functions of the pictures' sizes.

Each model resizes or tiles pictures by a rule of its own, so the number of tokens follows from width and height. Its
processor, in the library *transformers*, is the reference; tests compare 1,000 sizes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import ConfigError

_Sizes = npt.ArrayLike


class PictureCosts(NamedTuple):
    """The costs of pictures; NaN for pictures that the model refuses.

    Attributes:
        tokens: Tokens of each picture in the language model, shape (n,).
        patches: Patches of each picture in the vision encoder, shape (n,).
    """

    tokens: npt.NDArray[np.float64]
    patches: npt.NDArray[np.float64]


def qwen2_5_vl(
    width: _Sizes,
    height: _Sizes,
    *,
    min_pixels: int = 3136,
    max_pixels: int = 1_003_520,
    patch_size: int = 14,
    merge_size: int = 2,
) -> PictureCosts:
    """Return the costs of pictures in Qwen2-VL and Qwen2.5-VL.

    Sides are rounded to multiples of ``patch_size · merge_size``; a picture of more or fewer pixels is scaled first.
    ``merge_size²`` patches make a token.

    Source: ``smart_resize`` of ``Qwen2VLImageProcessor``; Bai et al., *Qwen2.5-VL Technical Report*, 2025, section 2.1.

    Args:
        width: Widths in pixels, shape (n,).
        height: Heights in pixels, shape (n,).
        min_pixels: Least pixels of a resized picture.
        max_pixels: Most pixels of a resized picture.

    >>> qwen2_5_vl([640, 4000], [480, 3000]).tokens.tolist()
    [391.0, 1230.0]
    """
    width, height = np.asarray(width, np.float64), np.asarray(height, np.float64)
    side = patch_size * merge_size
    rows, columns = np.rint(height / side), np.rint(width / side)
    # Scale pictures of too many pixels down, and of too few up; each side keeps a row of patches.
    pixels = width * height
    too_many = rows * columns * side**2 > max_pixels
    too_few = ~too_many & (rows * columns * side**2 < min_pixels)
    shrunk, grown = np.sqrt(pixels / max_pixels), np.sqrt(min_pixels / np.maximum(pixels, 1))
    rows = np.where(too_many, np.maximum(1, np.floor(height / shrunk / side)), rows)
    columns = np.where(too_many, np.maximum(1, np.floor(width / shrunk / side)), columns)
    rows = np.where(too_few, np.ceil(height * grown / side), rows)
    columns = np.where(too_few, np.ceil(width * grown / side), columns)
    # The processor refuses pictures that are 200 times as long as wide.
    refused = (np.maximum(width, height) > 200 * np.minimum(width, height)) | (np.minimum(width, height) < 1)
    tokens = np.where(refused, np.nan, rows * columns)
    return PictureCosts(tokens, tokens * merge_size**2)


def internvl(
    width: _Sizes,
    height: _Sizes,
    *,
    min_patches: int = 1,
    max_patches: int = 12,
    image_size: int = 448,
    tile_tokens: int = 256,
    patch_size: int = 14,
) -> PictureCosts:
    """Return the costs of pictures in InternVL 1.5 to 3.

    A picture is cut into the grid of tiles whose aspect is nearest to its own, with a thumbnail if there are several.

    Source: ``get_optimal_tiled_canvas`` of ``GotOcr2ImageProcessor``; Chen et al., *How Far Are We to GPT-4V?*, 2024,
    section 3.3.

    Args:
        width: Widths in pixels, shape (n,).
        height: Heights in pixels, shape (n,).
        min_patches: Least tiles of a picture.
        max_patches: Most tiles of a picture.

    >>> internvl([448, 900, 1800], [448, 448, 448]).tokens.tolist()
    [256.0, 768.0, 1280.0]
    """
    width, height = np.asarray(width, np.float64), np.asarray(height, np.float64)
    grids = [(x, y) for x in range(1, max_patches + 1) for y in range(1, max_patches + 1)]
    grids = sorted(
        (grid for grid in grids if min_patches <= grid[0] * grid[1] <= max_patches), key=lambda g: g[0] * g[1]
    )
    best, tiles = np.full(width.shape, np.inf), np.ones(width.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        aspect = width / height
    for x, y in grids:
        difference = np.abs(aspect - x / y)
        # Of two grids of one aspect, the larger one is taken if the picture fills more than half of it.
        better = (difference < best) | ((difference == best) & (width * height > 0.5 * image_size**2 * x * y))
        tiles, best = np.where(better, x * y, tiles), np.minimum(best, difference)
    tiles = tiles + (tiles > 1)
    tiles = np.where((width < 1) | (height < 1), np.nan, tiles)
    return PictureCosts(tiles * tile_tokens, tiles * (image_size // patch_size) ** 2)


_PINPOINTS: Final = "336x672 672x336 672x672 1008x336 336x1008"


def llava_next(
    width: _Sizes, height: _Sizes, *, grid_pinpoints: str = _PINPOINTS, image_size: int = 336, patch_size: int = 14
) -> PictureCosts:
    """Return the costs of pictures in LLaVA-NeXT (LLaVA 1.6).

    A picture is scaled into the canvas that keeps most of its pixels and wastes least; tokens of the padding are cut
    off, a token ends each row, and the whole picture comes first, at ``image_size``.

    Source: ``LlavaNextProcessor._get_number_of_features``; Liu et al., *LLaVA-NeXT: Improved reasoning, OCR, and world
    knowledge*, 2024.

    Args:
        width: Widths in pixels, shape (n,).
        height: Heights in pixels, shape (n,).
        grid_pinpoints: Canvases, height times width in pixels.

    >>> llava_next([640, 100], [480, 1000]).tokens.tolist()
    [2340.0, 1224.0]
    """
    width, height = np.asarray(width, np.float64), np.asarray(height, np.float64)
    canvases = [tuple(map(int, canvas.split("x"))) for canvas in grid_pinpoints.split()]
    most, least = np.full(width.shape, -1.0), np.full(width.shape, np.inf)
    best_height, best_width = np.zeros(width.shape), np.zeros(width.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for canvas_height, canvas_width in canvases:
            scale = np.minimum(canvas_width / width, canvas_height / height)
            kept = np.minimum(np.floor(width * scale) * np.floor(height * scale), width * height)
            wasted = canvas_height * canvas_width - kept
            better = (kept > most) | ((kept == most) & (wasted < least))
            most, least = np.where(better, kept, most), np.where(better, wasted, least)
            best_height = np.where(better, canvas_height, best_height)
            best_width = np.where(better, canvas_width, best_width)
        # Count the patches of the canvas without the rows or columns of padding, which are cut off in pairs.
        side = image_size // patch_size
        rows, columns = side * (best_height // image_size), side * (best_width // image_size)
        is_wide = width / height > columns / rows
        inner_rows = np.trunc(np.round(height * (columns / width), 7))
        inner_columns = np.trunc(np.round(width * (rows / height), 7))
    rows, columns = (
        np.where(is_wide, rows - 2 * ((rows - inner_rows) // 2), rows),
        np.where(is_wide, columns, columns - 2 * ((columns - inner_columns) // 2)),
    )
    tiles = (best_height // image_size) * (best_width // image_size)
    refused = (width < 1) | (height < 1)
    tokens = np.where(refused, np.nan, rows * columns + rows + side**2)
    return PictureCosts(tokens, np.where(refused, np.nan, (tiles + 1) * side**2))


ENCODERS: Final[dict[str, Callable[..., PictureCosts]]] = {
    "qwen2.5-vl": qwen2_5_vl,
    "internvl": internvl,
    "llava-next": llava_next,
}
"""Functions by the names of the models."""


@dataclass(frozen=True, slots=True)
class EncoderCosts:
    """A model with its settings.

    Args:
        name: Its name in :data:`ENCODERS`.
        settings: Keyword arguments of its function.
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str) -> EncoderCosts:
        """Read a model and its settings from a text.

        Raises:
            ConfigError: There is no such model or setting, or a value is not a number.

        >>> EncoderCosts.parse("qwen2.5-vl:max_pixels=501760").settings
        (('max_pixels', 501760),)
        """
        name, _, rest = text.partition(":")
        if name not in ENCODERS:
            raise ConfigError(f"there are no costs of the model {name!r}", hint=f"name one of {', '.join(ENCODERS)}")
        parameters = inspect.signature(ENCODERS[name]).parameters
        known = {key: each.default for key, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
        settings = {}
        for part in filter(None, rest.split(",")):
            key, _, value = part.partition("=")
            if key not in known:
                raise ConfigError(f"{name} has no setting {key!r}", hint=f"its settings: {', '.join(known)}")
            if isinstance(known[key], int) and not (value.isascii() and value.isdigit() and int(value)):
                raise ConfigError(f"expected {key} of {name} to be an integer above 0, found {value!r}")
            settings[key] = int(value) if isinstance(known[key], int) else value
        return cls(name, tuple(settings.items()))

    def __call__(self, width: _Sizes, height: _Sizes) -> PictureCosts:
        """Return the costs of pictures of these widths and heights in pixels, shape (n,)."""
        return partial(ENCODERS[self.name], **dict(self.settings))(width, height)

    def __str__(self) -> str:
        return self.name + (":" if self.settings else "") + ",".join(f"{key}={value}" for key, value in self.settings)
