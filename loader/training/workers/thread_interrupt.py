"""Raise an exception in a thread that does not come back by itself."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable
from types import FrameType

from .stack_dump import WATCHDOG_SIGNAL

__all__ = ["Interrupted", "ThreadInterrupt"]


class Interrupted(BaseException):
    """Raised in the thread; no ``Exception``, which a hook or its failure handling would take for its own."""


class ThreadInterrupt:
    """Interrupts the thread that makes it.

    The main thread is woken by a signal, also from ``time.sleep`` and system calls; other threads, and code in C that
    does not return to Python, get the exception when they next run Python code.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._handler = _installed() if threading.current_thread() is threading.main_thread() else None

    def send(self, wanted: Callable[[], bool]) -> None:
        """Raise :class:`Interrupted` there, if ``wanted()`` still says so when the thread gets to it."""
        if self._handler is not None:
            self._handler.wanted = wanted
            signal.pthread_kill(self._thread, WATCHDOG_SIGNAL)
        elif wanted():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(Interrupted))


class _Handler:
    """The process's handler of the signal; one serves all watchdogs, and it stays, for the signal would end us."""

    def __init__(self) -> None:
        self.wanted: Callable[[], bool] | None = None

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        wanted, self.wanted = self.wanted, None
        if wanted is not None and wanted():
            raise Interrupted


def _installed() -> _Handler:
    handler = signal.getsignal(WATCHDOG_SIGNAL)
    if not isinstance(handler, _Handler):
        handler = _Handler()
        signal.signal(WATCHDOG_SIGNAL, handler)
    return handler
