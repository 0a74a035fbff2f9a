"""Read keys and answers of a terminal in raw mode, and ask it how it can draw pictures."""

from __future__ import annotations

import atexit
import codecs
import contextlib
import os
import re
import select
import signal
import struct
import sys
import termios
import time
from collections import deque
from collections.abc import Callable, Container
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from types import FrameType
from typing import Any, Literal, Self

from ..console import is_terminal
from ..terminal_text import is_ascii_only

_NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x1b": "escape",
    "\x04": "end of input",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    **dict.fromkeys(("\x1b[A", "\x1bOA"), "up"),
    **dict.fromkeys(("\x1b[B", "\x1bOB"), "down"),
    **dict.fromkeys(("\x1b[C", "\x1bOC"), "right"),
    **dict.fromkeys(("\x1b[D", "\x1bOD"), "left"),
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"), "home"),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"), "end"),
}
_STRING = r"\x1b[_P\]X^][^\x1b\x07]*(?:\x1b\\|\x07)"  # an answer to a query of graphics, the name or a colour
_ANSWER = re.compile(rf"{_STRING}|\x1b\[[?>=][0-9;:]*[ -/]*[@-~]|\x1b\[[0-9;]+[cRtn]")
_KEY = re.compile(
    r"\x1b\[\[.|\x1b\[[0-9;:<=>?]*[ -/]*[@-~]|\x1bO.|\x1b[^\[O_P\]X^\x1b]|[^\x1b]|\x1b(?=\x1b)", re.DOTALL
)
_LONGEST_ANSWER = 4096  # characters
_ESCAPE_S = 0.05  # a key's escape sequence arrives within this time
_ANSWER_S = 1.0  # and so long an answer may take


def split_input(text: str) -> tuple[list[str], list[str], str]:
    r"""Split the input of a terminal.

    Args:
        text: Characters received so far.

    Returns:
        The keys (names such as ``"right"`` and ``"enter"``, or the character itself), the terminal's answers, and the
        rest: an escape sequence that is not complete.

    >>> split_input("n\x1b[C\x1b[?62;4cq\x1b")
    (['n', 'right', 'q'], ['\x1b[?62;4c'], '\x1b')
    """
    keys, answers, start = [], [], 0
    while start < len(text):
        answer = _ANSWER.match(text, start)
        match = answer or _KEY.match(text, start)
        if match is None:
            break
        if answer is not None:
            answers.append(match[0])
        else:
            keys.append(_NAMES.get(match[0], match[0]))
        start = match.end()
    return keys, answers, text[start:]


class Keyboard:
    """The keys pressed on a terminal, in order; none is lost, and no answer to a query counts as one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._keys: deque[str] = deque()
        self.answers: list[str] = []
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)

    def close(self) -> None:
        os.close(self._woken)
        os.close(self._waker)

    def wake(self) -> None:
        """End a :meth:`wait`, from another thread or a signal handler."""
        try:
            os.write(self._waker, b"\0")
        except OSError:  # the pipe is full, so it wakes anyway; or the walk is over
            return

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until a further key or answer arrives, :meth:`wake` is called, or the time is over."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        before = len(self._keys) + len(self.answers)
        while len(self._keys) + len(self.answers) == before:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if self._rest:
                pause = _ESCAPE_S if len(self._rest) <= 2 else _ANSWER_S
                left = pause if left is None else min(left, pause)
            ready, _, _ = select.select([self._descriptor, self._woken], [], [], left)
            if self._descriptor in ready:
                self._receive()
            elif not ready and self._rest:
                self._end_of_sequence()
            if self._woken in ready:
                os.read(self._woken, 4096)
                return
            if deadline is not None and time.monotonic() >= deadline:
                return

    def pop(self) -> str | None:
        return self._keys.popleft() if self._keys else None

    def has_any(self, keys: Container[str]) -> bool:
        return any(key in keys for key in self._keys)

    def push_back(self, keys: list[str]) -> None:
        """Return keys that :meth:`pop` took; they come first again."""
        self._keys.extendleft(reversed(keys))

    def _receive(self) -> None:
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            self._keys.append("end of input")
            return
        keys, answers, self._rest = split_input(self._rest + self._decoder.decode(data))
        self._keys.extend(keys)
        self.answers.extend(answers)
        if len(self._rest) > _LONGEST_ANSWER:
            self._rest = ""

    def _end_of_sequence(self) -> None:
        """Accept a lone escape as a key, after a pause; drop a sequence that has no end."""
        if self._rest == "\x1b":
            self._keys.append("escape")
        self._rest = ""


# Keep a terminal in raw mode, and restore it however the program ends or pauses.


_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(eq=False)
class RawMode:
    """A terminal that passes each key on at once and echoes none, for the duration of a ``with`` block.

    Ctrl-C still interrupts and Ctrl-Z still pauses the program. Both, an error, and signals that end the program
    restore the terminal first.
    """

    descriptor: int
    _: KW_ONLY
    on_enter: Callable[[], None] = lambda: None  # also when the program continues after a pause
    on_leave: Callable[[], None] = lambda: None
    on_change: Callable[[], None] | None = None  # draws again: the size is another, or a pause ended
    _modes: list[Any] | None = field(default=None, init=False)
    _handlers: dict[signal.Signals, Any] = field(default_factory=dict, init=False)

    def __enter__(self) -> Self:
        self._enter()
        if self.on_change is not None:
            self._handle(signal.SIGTSTP, self._pause)
            self._handle(signal.SIGWINCH, self._changed)
            for which in _ENDING:
                self._handle(which, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for which, handler in self._handlers.items():
            signal.signal(which, handler)
        self._handlers.clear()
        self._leave()

    def _handle(self, which: signal.Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        if signal.getsignal(which) in (signal.SIG_DFL, signal.default_int_handler):
            self._handlers[which] = signal.signal(which, handler)

    def _enter(self) -> None:
        modes = termios.tcgetattr(self.descriptor)
        self._modes = [*modes[:6], list(modes[6])]
        modes[0] &= ~termios.IXON  # Ctrl-S would freeze the screen
        modes[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self.descriptor, termios.TCSADRAIN, modes)
        self.on_enter()

    def _leave(self) -> None:
        if self._modes is None:
            return
        modes, self._modes = self._modes, None
        try:
            self.on_leave()
        finally:
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, modes)

    def _pause(self, *_: object) -> None:
        self._leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # returns when the shell continues the program
        signal.signal(signal.SIGTSTP, self._pause)
        self._enter()
        self._changed()

    def _changed(self, *_: object) -> None:
        if self.on_change is not None:
            self.on_change()

    def _end(self, which: int, _frame: FrameType | None) -> None:
        try:
            self._leave()
        finally:
            signal.signal(which, signal.SIG_DFL)
            os.kill(os.getpid(), which)


PictureMethod = Literal["kitty", "sixel", "blocks", "shades"]
"""Ways to draw a picture: Kitty's graphics protocol, Sixel, coloured half blocks, or characters as shades of grey."""

# Each terminal answers the queries in this order, and nearly every terminal answers the last one.
_QUERY = (
    "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"  # Kitty's graphics protocol
    "\x1b[16t"  # size of a cell
    "\ré\x1b[6n\r\x1b[K"  # cursor behind a character of two bytes: in column 2 if the terminal reads UTF-8
    "\x1b[c"  # attributes of the terminal; 4 is Sixel
)
# A local terminal answers within milliseconds; over SSH, a round trip may take a second.
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
    descriptor = sys.stdin.fileno()
    with contextlib.closing(Keyboard(descriptor)) as keyboard, RawMode(descriptor):
        return ask_terminal(keyboard)


def ask_terminal(keyboard: Keyboard | None = None) -> Terminal:
    """Return the abilities of the terminal at standard input and output.

    Args:
        keyboard: The terminal's input, in raw mode; keys that are pressed meanwhile stay in it. None: the terminal is
            asked once, and such keys are lost.
    """
    # Some outputs need no query.
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        return Terminal()
    if is_ascii_only():
        return Terminal(method="shades", ascii_only=True)
    if keyboard is None:
        return _ask_once()
    # Send all queries at once; the answer to the last one ends the wait.
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
        # Keys that are pressed meanwhile are for the command.
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

    try:
        packed = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
    except (OSError, ValueError, AttributeError):
        return _CELL
    rows, columns, width, height = struct.unpack("HHHH", packed)
    return (width // columns, height // rows) if rows and columns else _CELL


def discard_input() -> None:
    """Discard pending input of the terminal, such as keys pressed before a question appears."""
    with contextlib.suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
