"""Encode pictures as Sixel, the graphics of terminals since DEC's VT340."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

_COLOURS = 256
_BAND = 6  # rows of pixels in one character
_LONGEST_RUN = 255  # of a repeated character, as old terminals count them
_DIGITS = np.array([list(f"{number:\0>3}".encode()) for number in range(256)], np.uint8)  # without leading zeros
_BIT = np.uint8(1) << np.arange(8, dtype=np.uint8)
Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int32]


def encode_sixel(image: Image) -> str:
    """Return the control sequence that draws an RGB image at the cursor."""
    from PIL import Image as PillowImage

    small = image.copy()
    small.thumbnail((128, 128), PillowImage.Resampling.BILINEAR, reducing_gap=2.0)  # a palette needs no more
    palette = small.quantize(_COLOURS, method=PillowImage.Quantize.MEDIANCUT)
    indexed = image.quantize(palette=palette, dither=PillowImage.Dither.FLOYDSTEINBERG)
    pixels = np.asarray(indexed)  # (height, width)
    height, width = pixels.shape
    colours = np.asarray(palette.getpalette("RGB"), np.int64).reshape(-1, 3)
    colours = (colours * 100 + 127) // 255  # per cent
    used = np.unique(pixels)
    table = "".join(f"#{colour};2;{red};{green};{blue}" for colour in used for red, green, blue in [colours[colour]])
    body = _encode_bands(pixels).tobytes().decode("ascii")
    return f'\x1bP0;1;0q"1;1;{width};{height}{table}{body}\x1b\\'


def _encode_bands(pixels: npt.NDArray[Any]) -> Bytes:
    """Encode palette indexes (height, width): of each band of six rows, one line of characters for each colour."""
    height, width = pixels.shape
    rows = np.arange(height, dtype=np.int32)[:, None]
    columns = np.arange(width, dtype=np.int32)
    lines = (rows // _BAND) * _COLOURS + pixels
    places = np.sort((((lines * width + columns) << 3) | (rows % _BAND)).ravel())
    of_pixels = places >> 3
    first = np.flatnonzero(np.append(True, of_pixels[1:] != of_pixels[:-1]))  # one cell for a column, colour and band
    cells = of_pixels[first]
    bits = np.bitwise_or.reduceat(_BIT[places & 7], first).astype(np.int32)
    line, column = cells // width, cells % width
    # A run is a sequence of equal characters at adjacent columns of one line.
    begins = np.ones(len(cells), bool)
    begins[1:] = (cells[1:] - cells[:-1] != 1) | (bits[1:] != bits[:-1]) | (line[1:] != line[:-1])
    start = np.flatnonzero(begins)
    length = np.diff(start, append=len(cells)).astype(np.int32)
    line, column, bits = line[start], column[start], bits[start]
    is_new = np.append(True, np.diff(line) != 0)
    gap = column - np.where(is_new, 0, np.append(0, (column + length)[:-1]))
    band = line // _COLOURS
    bands = np.diff(band, prepend=0)
    prefix = np.zeros((len(start), 6), np.uint8)
    prefix[:, 0] = np.where(is_new & (bands == 0) & (np.arange(len(start)) > 0), ord("$"), 0)
    prefix[:, 1] = np.where(bands > 0, ord("-"), 0)
    prefix[is_new, 2] = ord("#")
    prefix[is_new, 3:] = _DIGITS[line[is_new] % _COLOURS]
    row, gap, length = _cut_long_runs(gap, length)
    prefix = prefix[row]
    prefix[1:][row[1:] == row[:-1]] = 0
    text = np.concatenate([prefix, _runs(gap, np.int32(63)), _runs(length, bits[row] + 63)], axis=1).ravel()
    without_padding: Bytes = text[text != 0]
    return without_padding


def _cut_long_runs(gap: Numbers, length: Numbers) -> tuple[npt.NDArray[np.intp], Numbers, Numbers]:
    """Divide gaps and runs of more than 255 characters into several rows; return their numbers, gaps and runs."""
    rows_of_gap = np.maximum(gap - 1, 0) // _LONGEST_RUN  # before the row in which the run begins
    rows = rows_of_gap + 1 + (length - 1) // _LONGEST_RUN
    row = np.repeat(np.arange(len(gap)), rows)
    number = (np.arange(len(row)) - np.repeat(np.cumsum(rows) - rows, rows)).astype(np.int32)
    of_run = number - rows_of_gap[row]
    cut_gap = np.clip(gap[row] - number * _LONGEST_RUN, 0, _LONGEST_RUN)
    cut_length = np.where(of_run < 0, 0, np.clip(length[row] - of_run * _LONGEST_RUN, 0, _LONGEST_RUN))
    return row, cut_gap, cut_length


def _runs(length: Numbers, character: Numbers | np.int32) -> Bytes:
    """Encode runs of at most 255 characters as rows of bytes, padded with zeros."""
    encoded = np.zeros((len(length), 5), np.uint8)
    repeated = np.flatnonzero(length > 1)
    encoded[repeated, 0] = ord("!")
    encoded[repeated, 1:4] = _DIGITS[length[repeated]]
    encoded[:, 4] = np.where(length > 0, character, 0)
    return encoded
