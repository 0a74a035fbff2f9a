"""The screen of a terminal, and a grid of thumbnails on it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from loader.errors import escape_controls
from loader.inspect import SampleView
from loader.samples import PictureError

from ....terminal.drawing import DELETE_KITTY_PICTURES, Drawing
from ....terminal.render import DrawingSpace, draw_in
from ....terminal_text import in_ascii

if TYPE_CHECKING:
    from rich.console import Console

    from .search import AheadWorker, Job, NotedKeys


_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # the terminal shows all that is written between them at once
_GRAPHICS = re.compile(r"\x1b7(?:\x1b\[(\d+)A)?\x1b\[\d+D\x1b[_P].*?\x1b8", re.DOTALL)


class Screen:
    """The screen of a terminal, apart from the lines that were there before; a dumb terminal prints lines only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._encoding = sys.stdout.encoding or "ascii"
        self.is_dumb = console.is_dumb_terminal
        self.measure()
        self.space: DrawingSpace | None = None

    def measure(self) -> None:
        self.columns, self.rows = self._console.size

    def enter(self) -> None:
        """Switch to a screen of its own, without a cursor."""
        sys.stdout.flush()
        if not self.is_dumb:
            self.write("\x1b[?1049h\x1b[?25l\x1b[2J")

    def leave(self) -> None:
        if not self.is_dumb:
            self.write(f"\x1b\\{self._delete_pictures()}\x1b[0m\x1b[?25h\x1b[?1049l")

    def show(self, lines: Sequence[str], footer: str, *, first: int = 0) -> int:
        """Show lines from ``first`` on, and a footer; return the number of lines below the last one shown."""
        if self.is_dumb:
            self.write("\n".join([*lines, in_ascii(footer), ""]))
            return 0
        height = max(1, self.rows - 1)
        shown = lines[first : first + height]
        if first:
            shown = [self._cut(line, row) for row, line in enumerate(shown)]
        # Text that is written over replaces half blocks without a flicker; Sixel needs to be erased.
        erase = "\x1b[2J" if self.space is not None and self.space.method == "sixel" else ""
        body = "\r\n".join(f"\x1b[K{line}" for line in shown)
        self.write(f"{_BEGIN}{self._delete_pictures()}{erase}\x1b[H{body}\x1b[0m\r\n\x1b[J{self._footer(footer)}{_END}")
        return max(0, len(lines) - first - height)

    def clear(self) -> None:
        self.write(f"{self._delete_pictures()}\x1b[2J")

    def show_footer(self, footer: str) -> None:
        self.write(in_ascii(footer) + "\n" if self.is_dumb else self._footer(footer))

    def write(self, text: str) -> None:
        """Write to the terminal; signal handlers may call this at any time."""
        data = memoryview(text.encode(self._encoding, "backslashreplace"))
        while data:  # a terminal takes a few kilobytes at a time
            data = data[os.write(sys.stdout.fileno(), data) :]

    def _footer(self, footer: str) -> str:
        from rich.cells import cell_len, set_cell_size

        text = in_ascii(footer) if self.space is not None and self.space.terminal.ascii_only else footer
        separator = in_ascii(" · ") if text.isascii() else " · "
        while cell_len(text) >= self.columns and separator in text:
            text = text.rpartition(separator)[0]
        return f"\x1b[{self.rows};1H\x1b[0;7m{set_cell_size(text, max(1, self.columns - 1)).rstrip()}\x1b[0m\x1b[K"

    def _delete_pictures(self) -> str:
        is_kitty = self.space is not None and self.space.method == "kitty"
        return DELETE_KITTY_PICTURES if is_kitty else ""

    @staticmethod
    def _cut(line: str, row: int) -> str:
        """Remove the pictures that begin above the screen."""
        return _GRAPHICS.sub(lambda command: command[0] if int(command[1] or 0) <= row else "", line)


_WIDTH, _HEIGHT = 20, 8  # of a tile in cells, with a gap at the right and the key below


Tile = tuple[SampleView, Drawing]
"""A sample, without its fields, and its first picture or the beginning of its texts."""


def make_tile(sample: SampleView, space: DrawingSpace) -> Tile:
    """Draw the first picture of a sample, or its texts if it has none."""
    columns, rows = _WIDTH - 2, _HEIGHT - 1
    drawing = None
    fault = sample.fault
    for picture in (picture for field in sample.fields for picture in field.pictures if space.pictures):
        try:
            drawing = draw_in(picture, columns, rows, space)
            break
        except PictureError as error:
            fault = fault or str(error)
    texts = [fault] if fault else [field.text or field.facts for field in sample.fields]
    return replace(sample, fields=()), drawing or Drawing(columns, _text_rows(texts, columns, rows, space))


def _text_rows(texts: Sequence[str], columns: int, rows: int, space: DrawingSpace) -> list[str]:
    from rich.cells import chop_cells, set_cell_size

    lines: list[str] = []
    for text in texts:
        safe = escape_controls(text[: columns * rows])
        lines += chop_cells(in_ascii(safe) if space.terminal.ascii_only else safe, columns)
    return [set_cell_size(line, columns) for line in lines[:rows]] or [" " * columns]


class Grid:
    """A page of tiles on the screen; only what changes is drawn."""

    def __init__(
        self,
        screen: Screen,
        worker: AheadWorker,
        notes: NotedKeys,
        *,
        total: int,
        make: Callable[[int], Tile],
        version: int,  # tiles of another one, for another size of the screen, are not reused
    ) -> None:
        self._version = version
        self._screen, self._worker, self._total, self._make, self._notes = screen, worker, total, make, notes
        self.across = max(1, screen.columns // _WIDTH)
        self._down = max(1, (screen.rows - 1) // (_HEIGHT + 1))
        self._page = -1
        self._labels: dict[int, str] = {}

    @property
    def size(self) -> int:
        return self.across * self._down

    def jobs(self, index_shown: int) -> list[Job]:
        """Return the tiles to make: the page of a place, then the next one."""
        start = index_shown // self.size * self.size
        places = range(start, min(self._total, start + 2 * self.size))
        return [(("tile", index, self._version), lambda index=index: self._make(index)) for index in places]  # type: ignore[misc]

    def tile(self, index: int) -> Tile | None:
        return self._worker.get(("tile", index, self._version))

    def draw(self, selected: int) -> bool:
        """Draw what is new; return True if a page was begun."""
        # Begin another page if the selected sample is on none that is shown.
        page = selected // self.size
        is_new = page != self._page
        if is_new:
            self._screen.clear()
            self._page, self._labels = page, {}
        # Draw the tiles that have been made since, each once.
        for cell in range(self.size):
            index = page * self.size + cell
            tile = self.tile(index) if index < self._total else None
            if tile is None:
                continue
            sample, drawing = tile
            row = 1 + cell // self.across * (_HEIGHT + 1)
            column = 1 + cell % self.across * _WIDTH
            text = ""
            if index not in self._labels:
                for offset, line in enumerate(drawing.rows[: self._screen.rows - 1 - row]):
                    text += f"\x1b[{row + offset};{column}H{line}{drawing.row(offset)}"
            # The label changes with the selection and the notes; the picture above stays.
            label = self._label(sample, is_selected=index == selected)
            if self._labels.get(index) != label:
                self._labels[index] = label
                text += f"\x1b[{min(row + _HEIGHT - 1, self._screen.rows - 1)};{column}H{label}"
            if text:
                self._screen.write(text)
        return is_new

    def _label(self, sample: SampleView, *, is_selected: bool) -> str:
        from rich.cells import set_cell_size

        name = in_ascii(escape_controls(sample.title.partition("   ")[0].rpartition("/")[2]))
        mark = "x " if sample in self._notes else ""
        text = set_cell_size(f"{mark}{name[-(_WIDTH - 2 - len(mark)) :]}", _WIDTH - 2)
        return f"\x1b[0;7m{text}\x1b[0m" if is_selected else f"\x1b[0m{text}"
