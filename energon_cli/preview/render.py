"""Render the fields of a sample: as lines when piped, with pictures on a terminal."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loader.inspect import FieldView, Picture, PictureError, SampleView

from ..console import escape_controls, is_terminal

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = [
    "DrawingSpace",
    "best_renderable",
    "discard_input",
    "fit_cells",
    "half_blocks",
    "render_sample",
    "terminal_space",
]

_MAX_LINES = 12  # of one field's text
_MAX_LINE = 1_000  # characters of one line when piped
_LONGEST_PIXELS = 1_600  # longest side of a decoded picture; half blocks need far less
_MIN_PICTURE_ROWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingSpace:
    """The space for one sample, in cells, and whether pictures may be drawn.

    Attributes:
        columns: The width.
        rows: The height that a sample should fit into; None: unlimited.
        pictures: Draw pictures.
        colour: Draw pictures in colour; otherwise in characters as shades of grey.
    """

    columns: int
    rows: int | None
    pictures: bool
    colour: bool = True


def terminal_space(console: Console, *, images: bool | None = None, share: float = 1.0) -> DrawingSpace:
    """Return the space that a console has for one sample.

    Args:
        console: The console that shows the samples.
        images: Draw pictures; None: only on a terminal that can.
        share: Share of the screen's height that a sample may fill.
    """
    # Querying the terminal's capabilities needs both its input and its output.
    terminal = console.is_terminal and not console.is_dumb_terminal and is_terminal(sys.stdin)
    if terminal and images is not False:
        best_renderable(colour=True)  # queries the terminal now, before it shows anything
    return DrawingSpace(
        columns=console.width,
        rows=int(console.height * share) - 3 if console.is_terminal else None,
        pictures=terminal if images is None else images,
        colour=not console.no_color,
    )


def render_sample(sample: SampleView, space: DrawingSpace) -> list[RenderableType]:
    """Return the renderables of one sample, from top to bottom."""
    from rich.text import Text

    lines: list[RenderableType] = [Text(escape_controls(sample.title), style="bold")]
    if sample.origin is not None:
        lines.append(Text(escape_controls(sample.origin), style="dim"))
    if sample.fault is not None:
        lines.extend(Text(escape_controls(line), style="red") for line in sample.fault.splitlines())
    bodies = [_body(field, space) for field in sample.fields]
    wide = max((len(escape_controls(field.name)) for field in sample.fields), default=0)
    used = len(lines) + sum(1 + len(body) for body in bodies) + len((sample.note or "").splitlines())
    rows = _picture_rows(space, used, [len(field.pictures) for field in sample.fields])
    for field, body in zip(sample.fields, bodies, strict=True):
        head = Text("  ")
        head.append(f"{escape_controls(field.name):<{wide}}", style="cyan")
        head.append(f"  {escape_controls(field.facts)}")
        if field.fault is not None:
            head.append(f"  {escape_controls(field.fault)}", style="red")
        lines.append(head)
        lines.extend(Text(f"    {line}") for line in body)
        if space.pictures and field.pictures:
            lines.append(_draw_pictures(field.pictures, space, rows))
    if sample.note is not None:
        lines.extend(Text(escape_controls(line), style="dim") for line in sample.note.splitlines())
    return lines


def _body(field: FieldView, space: DrawingSpace) -> list[str]:
    """Cut a field's text to the space; newlines in the text are kept."""
    if field.text is None:
        return []
    width = space.columns - 5 if space.rows is not None else _MAX_LINE
    limit = _MAX_LINES if space.rows is None else max(3, min(_MAX_LINES, space.rows // 3))
    lines: list[str] = []
    for line in field.text.replace("\r\n", "\n").split("\n"):
        lines.extend(_wrap(escape_controls(line.expandtabs(4)), max(20, width)))
        if len(lines) > limit:
            break
    if len(lines) > limit:
        lines = [*lines[: limit - 1], f"… ({len(field.text):,} characters in all)"]
    return lines


def _wrap(line: str, width: int) -> Iterable[str]:
    """Wrap a line at a width in columns; wide characters take two."""
    from rich.cells import cell_len
    from rich.text import Text

    if cell_len(line) <= width:
        return [line]
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    return [str(part) for part in Text(line[:20_000]).wrap(console, width)]


def _picture_rows(space: DrawingSpace, used: int, counts: Sequence[int]) -> int:
    """Divide the rows that text leaves free among the fields with pictures."""
    fields = sum(count > 0 for count in counts)
    if space.rows is None or not fields:
        return 24
    return max(_MIN_PICTURE_ROWS, (space.rows - used) // fields)


def _draw_pictures(pictures: Sequence[Picture], space: DrawingSpace, rows: int) -> RenderableType:
    from rich.columns import Columns
    from rich.padding import Padding

    columns = max(2, (space.columns - 4) // len(pictures) - 2)
    drawn = [_draw(picture, columns, rows, colour=space.colour) for picture in pictures]
    return Padding(drawn[0] if len(drawn) == 1 else Columns(drawn, padding=(0, 2)), (0, 0, 0, 4))


def _draw(picture: Picture, columns: int, rows: int, *, colour: bool) -> RenderableType:
    from rich.text import Text

    width, height = fit_cells(picture.width, picture.height, columns, rows)
    try:
        image = picture.load(min(_LONGEST_PIXELS, max(width, 2 * height) * 12))
        return _Drawing(image, width, height, colour=colour)
    except PictureError as error:
        return Text(escape_controls(f"no picture: {error}"), style="red")


def fit_cells(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """Return the size of an image in cells (twice as high as wide): at least one cell, at most one cell per pixel.

    >>> fit_cells(640, 480, 80, 20)
    (53, 20)
    >>> fit_cells(1, 1, 80, 20)
    (1, 1)
    """
    scale = min(columns / width, 2 * rows / height, 1.0)
    return max(1, round(width * scale)), max(1, round(height * scale / 2))


class _Drawing:
    """A picture of a fixed number of cells, drawn by the best method of the terminal.

    The drawing is complete before its first line is yielded: if the drawing library fails, half blocks replace it
    instead of an exception in the middle of a screen.
    """

    def __init__(self, image: Image, width: int, height: int, *, colour: bool) -> None:
        self._size = (width, height)
        self._colour = colour
        self._image = image

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = self._size
        renderable = best_renderable(colour=self._colour)
        if renderable is not None:
            try:
                yield from list(console.render(renderable(self._image, width=width, height=height), options))
                return
            except Exception:  # noqa: BLE001, S110 - half blocks need no drawing library
                pass
        yield from half_blocks(self._image, width, height)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Any:
        from rich.measure import Measurement

        return Measurement(self._size[0], self._size[0])


def best_renderable(*, colour: bool) -> Any:
    """Return textual-image's class for this terminal (Kitty's protocol, Sixel); None for half blocks.

    Importing it queries the terminal, so it is imported late, and only if both input and output are terminals.
    """
    streams = (sys.__stdin__, sys.__stdout__)
    if not all(map(is_terminal, streams)) or os.environ.get("TERM") == "linux":
        return None
    # It logs a traceback if the terminal does not answer the query, which is no fault.
    logging.getLogger("textual_image").setLevel(logging.CRITICAL)
    first = "textual_image.renderable" not in sys.modules
    try:
        from textual_image import renderable
    except Exception:  # noqa: BLE001 - a terminal may answer anything
        return None
    if first:
        discard_input()
    return renderable.Image if colour else renderable.UnicodeImage


def discard_input() -> None:
    """Discard pending input of the terminal: late answers to queries must not count as keys."""
    import termios

    with contextlib.suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def half_blocks(image: Image, width: int, height: int) -> Iterable[Any]:
    """Yield an image of (2 · height) × width pixels as ``▀``: foreground upper pixel, background lower pixel."""
    from rich.color import Color
    from rich.color_triplet import ColorTriplet
    from rich.segment import Segment
    from rich.style import Style

    small = image.resize((width, 2 * height))
    pixels = small.tobytes()  # (2 · height, width, 3)
    stride = 3 * width
    for row in range(height):
        for column in range(width):
            place = 2 * row * stride + 3 * column
            upper, lower = pixels[place : place + 3], pixels[place + stride : place + stride + 3]
            style = Style(
                color=Color.from_triplet(ColorTriplet(*upper)), bgcolor=Color.from_triplet(ColorTriplet(*lower))
            )
            yield Segment("▀", style)
        yield Segment.line()
