"""Render the fields of a sample: as lines when piped, with pictures on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field as dataclass_field
from typing import TYPE_CHECKING

from loader.errors import escape_controls
from loader.inspect import FieldView, SampleView
from loader.samples import Picture, PictureError

from ..terminal_text import in_ascii, is_ascii_only
from .drawing import Drawing, draw_picture, fit_cells
from .keys import Keyboard, PictureMethod, Terminal, ask_terminal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_MAX_LINES = 12  # of one field's text
_MAX_FIELDS = 100  # of a sample; names with dots may give it thousands of parts
_MAX_LINE = 1_000  # characters of one line when piped
# The longest side of a drawn picture: each pixel takes time to encode and to show. Kitty enlarges the picture itself.
_LONGEST_PIXELS = {"kitty": 800, "sixel": 640}
_MIN_PICTURE_ROWS = 4
_SIXEL_PIXELS = 320  # longest side up to which small pictures are enlarged
_WAVE_ROWS = 3
_WAVE_COLUMNS = 100
_LEVELS = " ▁▂▃▄▅▆▇█"
_ASCII_LEVELS = " .:|"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingSpace:
    """The space for one sample, in cells, and how pictures may be drawn.

    Attributes:
        columns: The width.
        rows: The height that a sample should fit into; None: unlimited.
        pictures: Draw pictures and waveforms.
        colour: Draw pictures in colour; otherwise in characters as shades of grey.
        truecolour: Any colour may be used, not only the 256 of a palette.
        terminal: The abilities of the terminal.
    """

    columns: int
    rows: int | None
    pictures: bool
    colour: bool = True
    truecolour: bool = True
    terminal: Terminal = dataclass_field(default_factory=Terminal)

    @property
    def method(self) -> PictureMethod:
        """The way to draw a picture."""
        return self.terminal.method if self.colour else "shades"


def terminal_space(
    console: Console,
    *,
    images: bool | None = None,  # None draws them on a terminal that can
    share: float = 1.0,  # of the height of the screen
    keyboard: Keyboard | None = None,  # the input of the terminal, if it is in raw mode
) -> DrawingSpace:
    """Return the space that a console has for one sample."""
    drawable = console.is_terminal and not console.is_dumb_terminal
    wanted = drawable if images is None else images
    return DrawingSpace(
        columns=console.width,
        rows=int(console.height * share) - 3 if console.is_terminal else None,
        pictures=wanted,
        colour=console.color_system in ("truecolor", "256") and not console.no_color,
        truecolour=console.color_system == "truecolor",
        terminal=ask_terminal(keyboard) if wanted else Terminal(ascii_only=console.is_terminal and is_ascii_only()),
    )


def _text(text: str, space: DrawingSpace, *, style: str = "", keep: str = "") -> Text:
    from rich.text import Text

    safe = escape_controls(text, keep=keep)
    return Text(in_ascii(safe) if space.terminal.ascii_only else safe, style=style)


def render_sample(sample: SampleView, space: DrawingSpace) -> list[RenderableType]:
    """Return the renderables of one sample, from top to bottom."""
    # The title, the dataset and the fault of the sample.
    lines: list[RenderableType] = [_text(sample.title, space, style="bold")]
    if sample.origin is not None:
        lines.append(_text(sample.origin, space, style="dim"))
    if sample.fault is not None:
        lines.extend(_text(line, space, style="red") for line in sample.fault.splitlines())
    # Cut texts first: pictures share the rows that are left.
    fields = sample.fields[:_MAX_FIELDS]
    bodies = [_body(field, space) for field in fields]
    wide = max((len(escape_controls(field.name)) for field in fields), default=0)
    waves = sum(field.waveform is not None for field in fields) * _WAVE_ROWS if space.pictures else 0
    used = len(lines) + sum(1 + len(body) for body in bodies) + len((sample.note or "").splitlines()) + waves
    rows = _picture_rows(space, used, [len(field.pictures) for field in fields])
    # Each field has a line, its text, its pictures and its waveform.
    for field, body in zip(fields, bodies, strict=True):
        head = _text("  ", space)
        head.append_text(_text(f"{escape_controls(field.name):<{wide}}", space, style="cyan"))
        head.append_text(_text(f"  {field.facts}", space))
        if field.fault is not None:
            head.append_text(_text(f"  {field.fault}", space, style="red"))
        lines.append(head)
        lines.extend(_text(f"    {line}", space) for line in body)
        if space.pictures and field.pictures:
            lines.append(_draw_pictures(field.pictures, space, rows))
        if space.pictures and field.waveform is not None:
            lines.append(_draw_waveform(field, space))
    if len(fields) < len(sample.fields):
        more = f"  … and {len(sample.fields) - len(fields):,} more, which --json prints"
        lines.append(_text(more, space, style="dim"))
    if sample.note is not None:
        lines.extend(_text(line, space, style="dim") for line in sample.note.splitlines())
    return lines


def _body(field: FieldView, space: DrawingSpace) -> list[str]:
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
        lines = [*lines[: limit - 1], "… (cut)"]
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
    fields = sum(count > 0 for count in counts)
    if space.rows is None or not fields:
        return 24
    return max(_MIN_PICTURE_ROWS, (space.rows - used) // fields)


def _draw_pictures(pictures: Sequence[Picture], space: DrawingSpace, rows: int) -> RenderableType:
    from rich.columns import Columns
    from rich.padding import Padding

    columns = max(2, (space.columns - 4) // len(pictures) - 2)
    drawn = [_draw(picture, columns, rows, space) for picture in pictures]
    return Padding(drawn[0] if len(drawn) == 1 else Columns(drawn, padding=(0, 2)), (0, 0, 0, 4))


def _draw(picture: Picture, columns: int, rows: int, space: DrawingSpace) -> RenderableType:
    try:
        return draw_in(picture, columns, rows, space)
    except PictureError as error:
        return _text(f"no picture: {error}", space, style="red")


def draw_in(picture: Picture, columns: int, rows: int, space: DrawingSpace) -> Drawing:
    """Draw a picture in at most this number of columns and rows."""
    cell = space.terminal.cell
    limit = _LONGEST_PIXELS.get(space.method, 0)
    if space.method == "sixel":
        longest = max(picture.width, picture.height)
        scale = max(1.0, _SIXEL_PIXELS / longest) if longest <= limit else limit / longest
        columns = min(columns, math.ceil(picture.width * scale / cell[0]))
    width, height = fit_cells(picture.width, picture.height, columns, rows, aspect=cell[1] / cell[0])
    across, down = cell if limit else (2, 4)  # smooth enough for one pixel or two
    needed = max(width * across, height * down)
    image = picture.load(min(limit, needed) if limit else needed)
    return draw_picture(
        image,
        width,
        height,
        method=space.method,
        cell=cell,
        ascii_only=space.terminal.ascii_only,
        truecolour=space.truecolour,
    )


def _draw_waveform(field: FieldView, space: DrawingSpace) -> RenderableType:
    from rich.padding import Padding

    columns = min(_WAVE_COLUMNS, space.columns - 6)
    if field.waveform is None:
        return ""
    try:
        levels = field.waveform(columns)
    except PictureError as error:
        return Padding(_text(f"no waveform: {error}", space, style="red"), (0, 0, 0, 4))
    ramp = _ASCII_LEVELS if space.terminal.ascii_only else _LEVELS
    return Padding(_text("\n".join(wave_rows(levels, _WAVE_ROWS, ramp)), space, keep="\n"), (0, 0, 0, 4))


def wave_rows(levels: Sequence[float], rows: int, ramp: str) -> list[str]:
    """Draw levels from 0 to 1 as columns of characters, which stand on the last row.

    >>> wave_rows([0.0, 0.5, 1.0], 2, " ▄█")
    ['  █', ' ██']
    """
    steps = len(ramp) - 1
    filled = [round(min(1.0, level) * rows * steps) for level in levels]
    return [
        "".join(ramp[min(steps, max(0, height - row * steps))] for height in filled) for row in reversed(range(rows))
    ]
