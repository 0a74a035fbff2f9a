"""Signals of a rank: its handlers run once, in its own process, and workers survive what they are called for.

Schedulers and terminals send a signal to all processes of a step or group. A forked worker has the handlers of the
training program, and a spawned one the default action, which for most signals ends it. So a worker ignores each signal
that the training program handles, from its first instruction on: the signals are blocked while it starts.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_OF_A_PROCESS = frozenset(
    # Faults, and the timers of a process: a hook may set one, and have the handler of the training program.
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}
    | {signal.SIGALRM, signal.SIGPROF, signal.SIGVTALRM}
)
_DEFAULT = (signal.SIGTERM, signal.SIGCHLD)  # SIGTERM ends a worker; without SIGCHLD, it could not wait for processes
_NOTICES = frozenset({signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
"""Blocked without a handler, too: a fork server keeps its mask, and must outlive what later handlers are called for."""


@dataclass(frozen=True, kw_only=True)
class RankSignals:
    """The signals of a rank, for its workers; it pickles.

    Attributes:
        handled: The signals with a handler in Python; not that of Python itself for Ctrl-C, which workers need.
        mask: The signals that the rank blocks itself.
    """

    handled: frozenset[int]
    mask: frozenset[int]

    def leave_to_rank(self) -> None:
        """Ignore, in a worker's process, the signals that the rank handles, and receive all others."""
        if threading.current_thread() is threading.main_thread():
            for number in self.handled:
                signal.signal(number, signal.SIG_DFL if number in _DEFAULT else signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


@contextmanager
def blocked_signals(*others: int) -> Iterator[RankSignals]:
    """Block the signals of this rank in its thread; a process that starts in the block inherits that.

    Args:
        others: Signals to block also without a handler.
    """
    handled = frozenset(
        int(number)
        for number in signal.valid_signals() - _OF_A_PROCESS
        if callable(handler := signal.getsignal(number)) and handler is not signal.default_int_handler
    )
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, handled | _NOTICES | {*others})
    try:
        yield RankSignals(handled=handled, mask=frozenset(map(int, mask)))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
