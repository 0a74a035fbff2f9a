"""Write whole screens to a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ascii_text import in_ascii
from ....terminal.drawing import DELETE_KITTY_PICTURES
from ....terminal.render import DrawingSpace

if TYPE_CHECKING:
    from rich.console import Console

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # the terminal shows all that is written between them at once
_GRAPHICS = re.compile(r"\x1b7(?:\x1b\[(\d+)A)?\x1b\[\d+D\x1b[_P].*?\x1b8", re.DOTALL)


class Screen:
    """The screen of a terminal, apart from the lines that were there before; a dumb terminal prints lines only.

    Args:
        console: The terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._encoding = sys.stdout.encoding or "ascii"
        self.is_dumb = console.is_dumb_terminal
        self.measure()
        self.space: DrawingSpace | None = None

    def measure(self) -> None:
        """Read the size of the terminal."""
        self.columns, self.rows = self._console.size

    def enter(self) -> None:
        """Switch to a screen of its own, without a cursor."""
        sys.stdout.flush()
        if not self.is_dumb:
            self.write("\x1b[?1049h\x1b[?25l\x1b[2J")

    def leave(self) -> None:
        """Return to the screen as it was."""
        if not self.is_dumb:
            self.write(f"\x1b\\{self._delete_pictures()}\x1b[0m\x1b[?25h\x1b[?1049l")

    def show(self, lines: Sequence[str], footer: str, *, first: int = 0) -> int:
        """Replace what the screen shows.

        Args:
            lines: Lines with control sequences; those that do not fit are dropped.
            footer: Text of the last row.
            first: The first of the lines to show.

        Returns:
            Number of lines below the last one shown.
        """
        if self.is_dumb:
            self.write("\n".join([*lines, in_ascii(footer), ""]))
            return 0
        height = max(1, self.rows - 1)
        shown = lines[first : first + height]
        if first:
            shown = [self._cut(line, number) for number, line in enumerate(shown)]
        # Text that is written over replaces half blocks without a flicker; Sixel needs to be erased.
        erase = "\x1b[2J" if self.space is not None and self.space.method == "sixel" else ""
        body = "\r\n".join(f"\x1b[K{line}" for line in shown)
        self.write(f"{_BEGIN}{self._delete_pictures()}{erase}\x1b[H{body}\x1b[0m\r\n\x1b[J{self._footer(footer)}{_END}")
        return max(0, len(lines) - first - height)

    def clear(self) -> None:
        """Remove all text and pictures."""
        self.write(f"{self._delete_pictures()}\x1b[2J")

    def show_footer(self, footer: str) -> None:
        """Replace the last row."""
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
        return _GRAPHICS.sub(lambda found: found[0] if int(found[1] or 0) <= row else "", line)
