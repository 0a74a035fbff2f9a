"""Ask the terminal how it can draw pictures."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import struct
import sys
import time
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ..console import is_terminal
from ..settings import is_ascii_only
from .keys import Keyboard

PictureMethod = Literal["kitty", "sixel", "blocks", "shades"]
"""Ways to draw a picture: Kitty's graphics protocol, Sixel, coloured half blocks, or characters as shades of grey."""

# Each terminal answers the queries in this order, and nearly every terminal answers the last one.
_QUERY = (
    "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"  # Kitty's graphics protocol
    "\x1b[16t"  # size of a cell
    "\ré\x1b[6n\r\x1b[K"  # cursor behind a character of two bytes: in column 2 if the terminal reads UTF-8
    "\x1b[c"  # attributes of the terminal; 4 is Sixel
)
_WAIT_S = 0.4
_WAIT_REMOTE_S = 1.5
_CELL = (10, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The abilities of a terminal."""

    method: PictureMethod = "blocks"
    cell: tuple[int, int] = _CELL  # width and height in pixels
    ascii_only: bool = False


@cache
def _ask_once() -> Terminal:
    from .keys import RawMode

    descriptor = sys.stdin.fileno()
    keyboard = Keyboard(descriptor)
    try:
        with RawMode(descriptor):
            return ask_terminal(keyboard)
    finally:
        keyboard.close()


def ask_terminal(keyboard: Keyboard | None = None) -> Terminal:
    """Return the abilities of the terminal at standard input and output.

    Args:
        keyboard: The terminal's input, in raw mode; keys that are pressed meanwhile stay in it. None: the terminal is
            asked once, and such keys are lost.
    """
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        return Terminal()
    if is_ascii_only():
        return Terminal(method="shades", ascii_only=True)
    if keyboard is None:
        return _ask_once()
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), _QUERY.encode())
    deadline = time.monotonic() + (_WAIT_REMOTE_S if os.environ.get("SSH_CONNECTION") else _WAIT_S)
    answers: list[str] = []
    kept: list[str] = []
    while not any(re.fullmatch(r"\x1b\[\?[0-9;]*c", answer) for answer in answers):
        left = deadline - time.monotonic()
        if left <= 0:
            atexit.register(discard_input)  # an answer after the end of the program would appear at the shell's prompt
            break
        keyboard.wait(left)
        answers += keyboard.answers
        keyboard.answers.clear()
        while (key := keyboard.pop()) is not None:
            kept.append(key)
            if key == "end of input":
                deadline = 0
    keyboard.push_back(kept)
    return read_answers(answers)


def read_answers(answers: list[str]) -> Terminal:
    r"""Derive the abilities of a terminal from its answers.

    >>> read_answers(["\x1b_Gi=31;OK\x1b\\", "\x1b[6;18;9t", "\x1b[1;2R", "\x1b[?62;c"])
    Terminal(method='kitty', cell=(9, 18), ascii_only=False)
    >>> read_answers(["\x1b[1;3R", "\x1b[?64;1;2c"]).ascii_only
    True
    """
    text = "".join(answers)
    if re.search(r"\x1b\[\d+;3R", text):
        return Terminal(method="shades", ascii_only=True)
    size = re.search(r"\x1b\[6;(\d+);(\d+)t", text)
    cell = (int(size[2]), int(size[1])) if size else _window_cell()
    attributes = re.search(r"\x1b\[\?([0-9;]*)c", text)
    method: PictureMethod = "blocks"
    if "\x1b_Gi=31;OK\x1b\\" in text:
        method = "kitty"
    elif attributes is not None and "4" in attributes[1].split(";")[1:]:
        method = "sixel"
    return Terminal(method=method, cell=cell if min(cell) > 0 else _CELL)


def _window_cell() -> tuple[int, int]:
    """Return the size of a cell by the size of the window in pixels, which some terminals set."""
    import fcntl
    import termios

    try:
        packed = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
    except (OSError, ValueError, AttributeError):
        return _CELL
    rows, columns, width, height = struct.unpack("HHHH", packed)
    return (width // columns, height // rows) if rows and columns else _CELL


def discard_input() -> None:
    """Discard pending input of the terminal, such as keys pressed before a question appears."""
    import termios

    with contextlib.suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
