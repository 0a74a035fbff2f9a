"""A pseudo-terminal for a command: it accepts keys and captures the screen."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

import pexpect
import pyte
from wcwidth import wcwidth

from tests.cli.forked_terminals import start_forked
from tests.source_tree import ROOT

UP, DOWN, RIGHT, LEFT, ENTER = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\r"
CTRL_C, CTRL_D, ESCAPE, TAB = "\x03", "\x04", "\x1b", "\t"
HOME, END, PAGE_UP, PAGE_DOWN = "\x1b[H", "\x1b[F", "\x1b[5~", "\x1b[6~"
KITTY_ANSWERS = "\x1b_Gi=31;OK\x1b\\\x1b[6;20;10t\x1b[1;2R\x1b[?62;c"
SIXEL_ANSWERS = "\x1b[6;20;10t\x1b[1;2R\x1b[?62;4;22c"
TEXT_ANSWERS = "\x1b[1;2R\x1b[?62;22c"
LATIN_ANSWERS = "\x1b[1;3R\x1b[?62;22c"  # the cursor moved by two columns for a character of two bytes


class Screen(pyte.Screen):
    """A screen whose text is put together again only for the lines that have changed."""

    def __init__(self, columns: int, rows: int) -> None:
        self._texts: dict[int, str] = {}
        super().__init__(columns, rows)

    @property
    def display(self) -> list[str]:
        for row in self.dirty:
            cells = [self.buffer[row][column].data for column in range(self.columns)]
            wide = [column for column, cell in enumerate(cells) if not cell.isascii() and wcwidth(cell[0]) == 2]
            for column in wide:  # the cell next to a wide character is part of it
                cells[column + 1 : column + 2] = [""]
            self._texts[row] = "".join(cells)
        self.dirty.clear()
        return [self._texts[row] for row in range(self.lines)]


class TerminalRun:
    """A command on a pseudo-terminal, and the screen it draws.

    Args:
        arguments: The command line behind ``energon``.
        rows: Of the screen.
        columns: Of the screen.
        environment: Variables to set.
        answers: The terminal's answers to the queries of ``energon preview``; None: it never answers.
        program: The program and its arguments, instead of ``energon``. Without it and ``environment``, the process is
            a fork of one that has imported what it needs.
    """

    def __init__(
        self,
        *arguments: object,
        rows: int = 40,
        columns: int = 100,
        environment: Mapping[str, str] | None = None,
        answers: str | None = TEXT_ANSWERS,
        program: Sequence[str] | None = None,
    ) -> None:
        variables = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(environment or {})}
        for name in ("NO_COLOR", "CI", "COLUMNS", "LINES"):
            if not (environment or {}).get(name):
                variables.pop(name, None)
        self.screen = Screen(columns, rows)
        self._stream = pyte.Stream(self.screen)
        self.raw = ""
        self._held = ""  # the start of a control string that is not complete
        self._answers = answers
        if program is None and environment is None:
            self.process = start_forked([*map(str, arguments)], rows=rows, columns=columns, variables=variables)
            return
        program = program or (sys.executable, "-m", "energon_cli")
        self.process = pexpect.spawn(
            program[0],
            [*program[1:], *map(str, arguments)],
            env=variables,
            dimensions=(rows, columns),
            encoding="utf-8",
            cwd=str(ROOT),
            use_poll=True,  # select fails in a process with a thousand open files
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # On a busy machine, a killed process may end later than pexpect waits for it.
        with suppress(pexpect.ExceptionPexpect):
            self.process.close(force=True)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def _read(self, timeout_s: float) -> bool:
        try:
            data = self.process.read_nonblocking(65536, timeout=timeout_s)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        # pyte does not support the graphics of Kitty and Sixel; terminals without support ignore them.
        text = re.sub("\x1b[_P].*?\x1b\\\\", "", self._held + data, flags=re.DOTALL)
        found = re.search("\x1b[_P]|\x1b$", text)
        self._held = text[found.start() :] if found else ""
        self._stream.feed(text[: found.start()] if found else text)
        if "\x1b[c" in data:  # the last query of energon preview
            self.process.send(self._answers or "")
        elif "\x1b[6n" in data:  # a query for the cursor position
            self.process.send(f"\x1b[{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}R")
        return True

    def wait_for(self, text: str, *, times: int = 1, timeout_s: float = 180) -> Self:
        """Read until the screen shows the text, as often as ``times``."""
        deadline = time.monotonic() + timeout_s
        while self.text.count(text) < times:
            alive = self._read(0.1)
            if self.text.count(text) >= times:
                break
            if not alive or time.monotonic() > deadline:
                raise AssertionError(f"{text!r} did not appear on\n{self.text}\nThe last output: {self.raw[-300:]!r}")
        return self

    def press(self, *keys: str) -> Self:
        """Send keys, one after the other."""
        for key in keys:
            self.process.send(key)
            self._read(0.02)
        return self

    def finish(self, *, timeout_s: float = 60) -> int | None:
        """Read to the end and return the exit code."""
        deadline = time.monotonic() + timeout_s
        while self._read(0.1):
            if time.monotonic() > deadline:
                raise AssertionError(f"the command did not end; it shows\n{self.text}")
        self.process.close()
        return self.process.exitstatus
