"""Draw pictures in cells of a terminal: by Kitty's protocol, as Sixel, as half blocks or as characters."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .keys import PictureMethod

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console, ConsoleOptions, RenderResult

_COLOURS = 256
_BAND = 6  # rows of pixels in one character
_LONGEST_RUN = 255  # of a repeated character, as old terminals count them
_DIGITS = np.array([list(f"{number:\0>3}".encode()) for number in range(256)], np.uint8)  # without leading zeros
_BIT = np.uint8(1) << np.arange(8, dtype=np.uint8)
Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int32]


DELETE_KITTY_PICTURES = "\x1b_Ga=d,d=A,q=2\x1b\\"

_ASCII_SHADES = " .:-=+*#%@"  # from dark to bright, on a dark ground
_BLOCK_SHADES = " ░▒▓█"
_CHUNK = 4096  # characters; Kitty's limit
_CUBE = [0, 95, 135, 175, 215, 255]  # levels of the 256-colour palette


def fit_cells(width: int, height: int, columns: int, rows: int, *, aspect: float = 2.0) -> tuple[int, int]:
    """Return the size of an image of ``width`` × ``height`` pixels in cells: at least one, at most one per pixel.

    ``aspect`` is the height of a cell as a multiple of its width.

    >>> fit_cells(640, 480, 80, 20)
    (53, 20)
    >>> fit_cells(1, 1, 80, 20)
    (1, 1)
    """
    scale = min(columns / width, aspect * rows / height, 1.0)
    return max(1, round(width * scale)), max(1, min(rows, round(height * scale / aspect)))


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of a fixed number of cells, which rich prints.

    Attributes:
        width: Columns.
        rows: The text of each row, without control sequences.
        colours: Control sequences that draw over each row, from its first column; or none.
        graphics: The control sequence that draws the whole picture from its upper left corner, or ``""``.
    """

    width: int
    rows: Sequence[str]
    colours: Sequence[str] = ()
    graphics: str = ""

    def row(self, index: int) -> str:
        """Return the control sequences that draw over a row, with the cursor behind it.

        Graphics are drawn after the last row: the screen does not scroll any more then.
        """
        if self.colours:
            return f"\x1b[{self.width}D{self.colours[index]}"
        if not self.graphics or index != len(self.rows) - 1:
            return ""
        up = f"\x1b[{index}A" if index else ""
        return f"\x1b7{up}\x1b[{self.width}D{self.graphics}\x1b8"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import ControlType, Segment

        for index, row in enumerate(self.rows):
            yield Segment(row)
            over = self.row(index)
            if over:
                yield Segment(over, control=[(ControlType.CARRIAGE_RETURN,)])  # rich measures no control segment
            yield Segment.line()

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Any:
        from rich.measure import Measurement

        return Measurement(self.width, self.width)


def draw_picture(
    image: Image,
    width: int,
    height: int,
    *,
    method: PictureMethod,
    cell: tuple[int, int] = (10, 20),  # width and height in pixels, for graphics
    ascii_only: bool = False,
    truecolour: bool = True,  # else half blocks have the 256 colours of a palette
) -> Drawing:
    """Draw an RGB image."""
    if method == "shades":
        return Drawing(width, shades(image, width, height, _ASCII_SHADES if ascii_only else _BLOCK_SHADES))
    # Colours and graphics are drawn over blanks, which keep their space.
    blank = [" " * width] * height
    if method == "blocks":
        return Drawing(width, blank, colours=half_blocks(image, width, height, truecolour=truecolour))
    scale = min(width * cell[0] / image.width, height * cell[1] / image.height)
    if method == "kitty":  # the terminal enlarges pictures itself
        return Drawing(width, blank, graphics=_encode_kitty(_scale(image, min(1, scale)), width, height))

    return Drawing(width, blank, graphics=encode_sixel(_scale(image, scale)))


def _scale(image: Image, scale: float) -> Image:
    from PIL import Image as PillowImage

    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    return image if size == image.size else image.resize(size, PillowImage.Resampling.BILINEAR)


def _encode_kitty(image: Image, width: int, height: int) -> str:
    """Encode an image for Kitty's graphics protocol, placed at the cursor; terminals answer nothing to it."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1, compress_type=zlib.Z_RLE)  # for photographs, smaller and faster
    data = base64.standard_b64encode(buffer.getvalue()).decode("ascii")
    chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    written = []
    for position, chunk in enumerate(chunks):
        options = f"a=T,f=100,q=2,C=1,c={width},r={height}," if position == 0 else ""
        written.append(f"\x1b_G{options}m={int(position < len(chunks) - 1)};{chunk}\x1b\\")
    return "".join(written)


def half_blocks(image: Image, width: int, height: int, *, truecolour: bool = True) -> list[str]:
    """Return rows of ``▀``: the foreground is the upper pixel of a cell, the background the lower one."""
    pixels = image.resize((width, 2 * height)).tobytes()  # (2 · height, width, 3)
    code = _truecolour_code if truecolour else _palette_code
    rows = []
    for row in range(height):
        cells, before = [], (b"", b"")
        for column in range(width):
            upper_at = 3 * (2 * row * width + column)
            lower_at = upper_at + 3 * width
            pair = (pixels[upper_at : upper_at + 3], pixels[lower_at : lower_at + 3])
            if pair != before:
                cells.append(f"\x1b[38;{code(pair[0])};48;{code(pair[1])}m")
                before = pair
            cells.append("▀")
        rows.append("".join(cells) + "\x1b[0m")
    return rows


def _truecolour_code(colour: bytes) -> str:
    return f"2;{colour[0]};{colour[1]};{colour[2]}"


def _palette_code(colour: bytes) -> str:
    red, green, blue = (min(range(6), key=lambda level: abs(_CUBE[level] - value)) for value in colour)
    return f"5;{16 + 36 * red + 6 * green + blue}"


def shades(image: Image, width: int, height: int, ramp: str) -> list[str]:
    """Return rows of characters that are as bright as the image."""
    characters = [ramp[value * len(ramp) // 256] for value in image.convert("L").resize((width, height)).tobytes()]
    return ["".join(characters[row * width : (row + 1) * width]) for row in range(height)]


def encode_sixel(image: Image) -> str:
    """Return the control sequence that draws an RGB image at the cursor."""
    from PIL import Image as PillowImage

    small = image.copy()
    small.thumbnail((128, 128), PillowImage.Resampling.BILINEAR, reducing_gap=2.0)  # a palette needs no more
    palette = small.quantize(_COLOURS, method=PillowImage.Quantize.MEDIANCUT)
    pixels = np.asarray(image.quantize(palette=palette, dither=PillowImage.Dither.FLOYDSTEINBERG))  # (height, width)
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
    # The first run of a line is preceded by the end of the line before, and its colour.
    is_new = np.append(True, np.diff(line) != 0)
    gap = column - np.where(is_new, 0, np.append(0, (column + length)[:-1]))
    bands = np.diff(line // _COLOURS, prepend=0)
    prefix = np.zeros((len(start), 6), np.uint8)
    prefix[:, 0] = np.where(is_new & (bands == 0) & (np.arange(len(start)) > 0), ord("$"), 0)
    prefix[:, 1] = np.where(bands > 0, ord("-"), 0)
    prefix[is_new, 2] = ord("#")
    prefix[is_new, 3:] = _DIGITS[line[is_new] % _COLOURS]
    # Write prefix, gap and run of each row, without the zeros that pad them.
    row, gap, length = _cut_long_runs(gap, length)
    prefix = prefix[row]
    prefix[1:][row[1:] == row[:-1]] = 0
    text = np.concatenate([prefix, _runs(gap, np.int32(63)), _runs(length, bits[row] + 63)], axis=1).ravel()
    without_padding: Bytes = text[text != 0]
    return without_padding


def _cut_long_runs(gap: Numbers, length: Numbers) -> tuple[npt.NDArray[np.intp], Numbers, Numbers]:
    """Divide gaps and runs of more than 255 characters into several rows; return their numbers, gaps and runs."""
    # Count the rows of each gap and run, and number them.
    rows_of_gap = np.maximum(gap - 1, 0) // _LONGEST_RUN  # before the row in which the run begins
    rows = rows_of_gap + 1 + (length - 1) // _LONGEST_RUN
    row = np.repeat(np.arange(len(gap)), rows)
    piece = (np.arange(len(row)) - np.repeat(np.cumsum(rows) - rows, rows)).astype(np.int32)
    of_run = piece - rows_of_gap[row]
    # Cut each row to its part of the gap, then of the run.
    cut_gap = np.clip(gap[row] - piece * _LONGEST_RUN, 0, _LONGEST_RUN)
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
