"""Read single keys from a terminal in raw mode, apart from the answers that the terminal itself sends."""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import termios
import time
from collections import deque
from collections.abc import Callable, Container
from types import FrameType
from typing import Any, Self

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
    keys, answers, place = [], [], 0
    while place < len(text):
        answer = _ANSWER.match(text, place)
        found = answer or _KEY.match(text, place)
        if found is None:
            break
        if answer is not None:
            answers.append(found[0])
        else:
            keys.append(_NAMES.get(found[0], found[0]))
        place = found.end()
    return keys, answers, text[place:]


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
        """Close the pipe that :meth:`wake` writes to."""
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
        """Return the next key that has arrived, or None."""
        return self._keys.popleft() if self._keys else None

    def has_any(self, keys: Container[str]) -> bool:
        """Check whether one of these keys has arrived."""
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


class RawMode:
    """A terminal that passes each key on at once and echoes none, for the duration of a ``with`` block.

    Ctrl-C still interrupts and Ctrl-Z still pauses the program. Both, an error, and signals that end the program
    restore the terminal first.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        on_enter: Callable[[], None] = lambda: None,  # also when the program continues after a pause
        on_leave: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] | None = None,  # draws again: the size is another, or a pause ended
    ) -> None:
        self._descriptor = descriptor
        self._on_enter = on_enter
        self._on_leave = on_leave
        self._on_change = on_change
        self._modes: list[Any] | None = None
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._enter()
        if self._on_change is not None:
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
        modes = termios.tcgetattr(self._descriptor)
        self._modes = [*modes[:6], list(modes[6])]
        modes[0] &= ~termios.IXON  # Ctrl-S would freeze the screen
        modes[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, modes)
        self._on_enter()

    def _leave(self) -> None:
        if self._modes is None:
            return
        modes, self._modes = self._modes, None
        try:
            self._on_leave()
        finally:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, modes)

    def _pause(self, *_: object) -> None:
        self._leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # returns when the shell continues the program
        signal.signal(signal.SIGTSTP, self._pause)
        self._enter()
        self._changed()

    def _changed(self, *_: object) -> None:
        if self._on_change is not None:
            self._on_change()

    def _end(self, which: int, _frame: FrameType | None) -> None:
        try:
            self._leave()
        finally:
            signal.signal(which, signal.SIG_DFL)
            os.kill(os.getpid(), which)
