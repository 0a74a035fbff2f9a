"""Keep a terminal in raw mode, and restore it however the program ends or pauses."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class RawMode:
    """A terminal that passes each key on at once and echoes none, for the duration of a ``with`` block.

    Ctrl-C still interrupts and Ctrl-Z still pauses the program. Both, an error, and signals that end the program
    restore the terminal first.

    Args:
        descriptor: File descriptor of the terminal's input.
        on_enter: Called after raw mode begins, also when the program continues after a pause.
        on_leave: Called before raw mode ends.
        on_change: Called when the terminal needs to be drawn again: another size, or the end of a pause.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        on_enter: Callable[[], None] = lambda: None,
        on_leave: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] | None = None,
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
