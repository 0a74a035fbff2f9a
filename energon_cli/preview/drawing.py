"""Draw pictures in cells of a terminal: by Kitty's protocol, as Sixel, as half blocks or as characters."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .terminal import PictureMethod

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console, ConsoleOptions, RenderResult

DELETE_KITTY_PICTURES = "\x1b_Ga=d,d=A,q=2\x1b\\"

_ASCII_SHADES = " .:-=+*#%@"  # from dark to bright, on a dark ground
_BLOCK_SHADES = " ░▒▓█"
_CHUNK = 4096  # characters; Kitty's limit
_CUBE = [0, 95, 135, 175, 215, 255]  # levels of the 256-colour palette


def fit_cells(width: int, height: int, columns: int, rows: int, *, aspect: float = 2.0) -> tuple[int, int]:
    """Return the size of an image in cells: at least one cell, at most one cell per pixel.

    Args:
        width: Pixels of the image.
        height: Pixels of the image.
        columns: The space.
        rows: The space.
        aspect: Height of a cell, as a multiple of its width.

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

    def row(self, number: int) -> str:
        """Return the control sequences that draw over a row, with the cursor behind it.

        Graphics are drawn after the last row: the screen does not scroll any more then.
        """
        if self.colours:
            return f"\x1b[{self.width}D{self.colours[number]}"
        if not self.graphics or number != len(self.rows) - 1:
            return ""
        up = f"\x1b[{number}A" if number else ""
        return f"\x1b7{up}\x1b[{self.width}D{self.graphics}\x1b8"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import ControlType, Segment

        for number, row in enumerate(self.rows):
            yield Segment(row)
            over = self.row(number)
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
    cell: tuple[int, int] = (10, 20),
    ascii_only: bool = False,
    truecolour: bool = True,
) -> Drawing:
    """Draw an RGB image.

    Args:
        image: The image.
        width: Columns to fill.
        height: Rows to fill.
        method: How to draw it.
        cell: Width and height of a cell in pixels, for graphics.
        ascii_only: Characters as shades of grey are ASCII.
        truecolour: Half blocks may have any colour, not only the 256 of a palette.
    """
    if method == "shades":
        return Drawing(width, shades(image, width, height, _ASCII_SHADES if ascii_only else _BLOCK_SHADES))
    blank = [" " * width] * height
    if method == "blocks":
        return Drawing(width, blank, colours=half_blocks(image, width, height, truecolour=truecolour))
    scale = min(width * cell[0] / image.width, height * cell[1] / image.height)
    if method == "kitty":  # the terminal enlarges pictures itself
        return Drawing(width, blank, graphics=_encode_kitty(_scale(image, min(1, scale)), width, height))
    from .sixel import encode_sixel

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
    for number, chunk in enumerate(chunks):
        options = f"a=T,f=100,q=2,C=1,c={width},r={height}," if number == 0 else ""
        written.append(f"\x1b_G{options}m={int(number < len(chunks) - 1)};{chunk}\x1b\\")
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
    """Return the nearest colour of the 6 × 6 × 6 cube in the 256-colour palette."""
    red, green, blue = (min(range(6), key=lambda level: abs(_CUBE[level] - value)) for value in colour)
    return f"5;{16 + 36 * red + 6 * green + blue}"


def shades(image: Image, width: int, height: int, ramp: str) -> list[str]:
    """Return rows of characters that are as bright as the image."""
    grey = image.convert("L").resize((width, height)).tobytes()
    characters = [ramp[value * len(ramp) // 256] for value in grey]
    return ["".join(characters[row * width : (row + 1) * width]) for row in range(height)]
