"""Run a command in a terminal emulator, which answers the command's queries, and return its screen."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pexpect
import pyte
from pyte.screens import Char

_CONTROL_STRING = re.compile("\x1b[_P].*?\x1b\\\\", flags=re.DOTALL)  # queries and pictures that pyte does not know
_INCOMPLETE = re.compile("\x1b[_P]|\x1b$")


class Emulator(pyte.HistoryScreen):
    """A screen whose answers go to a process, and that keeps what scrolled away."""

    def __init__(self, columns: int, lines: int, process: pexpect.spawn[str]) -> None:
        super().__init__(columns, lines, history=10_000)
        self._process = process

    def write_process_input(self, data: str) -> None:
        self._process.send(data)

    def all_lines(self) -> list[list[Char]]:
        """Return the cells of all lines up to the last one that is not empty."""
        lines = [*self.history.top, *(self.buffer[row] for row in range(self.lines))]
        cells = [[line[column] for column in range(self.columns)] for line in lines]
        while cells and not "".join(cell.data for cell in cells[-1]).strip():
            cells.pop()
        return cells

    def all_text(self) -> list[str]:
        """Return the text of these lines."""
        return ["".join(cell.data for cell in line).rstrip() for line in self.all_lines()]


def program_of(name: str) -> str:
    """Return the path of a program that is installed next to the running Python."""
    return str(Path(sys.executable).with_name(name))


def run_in_terminal(
    command: Sequence[str],
    *,
    columns: int,
    lines: int,
    variables: Mapping[str, str],
    on_output: Callable[[Emulator], str] = lambda _: "",
) -> tuple[int | None, Emulator]:
    """Run a command to its end.

    Args:
        command: A program of the running Python's environment, and its arguments.
        columns: Of the screen.
        lines: Of the screen.
        variables: Added to the environment.
        on_output: Called whenever the screen has changed; returns the keys to press.

    Returns:
        The exit code (None: killed by a signal) and the screen.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    process = pexpect.spawn(
        program_of(command[0]),
        list(command[1:]),
        dimensions=(lines, columns),
        env=inherited | dict(variables),
        encoding="utf-8",
    )
    screen = Emulator(columns, lines, process)
    stream = pyte.Stream(screen)
    unread = ""
    while True:
        try:
            unread += process.read_nonblocking(65536, timeout=60)
        except pexpect.EOF:
            break
        unread = _CONTROL_STRING.sub("", unread)
        incomplete = _INCOMPLETE.search(unread)
        end = incomplete.start() if incomplete else len(unread)
        stream.feed(unread[:end])
        unread = unread[end:]
        if keys := on_output(screen):
            process.send(keys)
    process.close()
    return process.exitstatus, screen
