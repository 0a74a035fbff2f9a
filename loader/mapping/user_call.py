"""Call the function of a user, so that a process that it forks never runs the code behind the call."""

from __future__ import annotations

import os
import select
import signal
import threading
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_WAIT_MS = 1000  # for a forked process that runs still: one of multiprocessing may do so for good

_calls = threading.local()
"""``pipe`` of the call that a thread runs: empty until the call forks, then the two ends of its pipe."""


class CallEndedError(RuntimeError):
    """A call has ended its process, or forked it and the new process returned."""


class CallTimeoutError(BaseException):
    """A call took longer than allowed; code that handles every ``Exception`` does not hide it."""


def user_errors() -> tuple[type[BaseException], ...]:
    """Return the types of the errors of a user's code: all, but for Ctrl-C, which other processes ignore."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        return (Exception, CallTimeoutError, SystemExit, GeneratorExit, CancelledError)
    return (BaseException,)


def _open_pipe() -> None:
    """Let the processes that the running call forks share a pipe, into which each writes that leaves the function."""
    if getattr(_calls, "pipe", None) == []:
        _calls.pipe.extend(os.pipe())


os.register_at_fork(before=_open_pipe)


def _check_forks(reading: int, writing: int) -> None:
    """Raise an error if a forked process has left the function; wait for those that may do so soon."""
    os.close(writing)
    try:
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        left = os.read(reading, 1024) if poll.poll(_WAIT_MS) else b""  # nothing if all have ended
    finally:
        os.close(reading)
    if left:
        with suppress(ChildProcessError):  # the function has waited for it, or it is the child of another
            os.waitpid(int(left.split()[0]), 0)
        raise CallEndedError(
            "the function forked its process, and the new process returned from the function, where it was ended: end"
            " it by os._exit, or use subprocess"
        )


def call_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns for arguments, and the items of an iterator that it returns as a list.

    A process that the function forks ends where it leaves the function.

    Raises:
        CallEndedError: There was such a process.
        Exception: The function raised this error.
    """
    process, outer, pipe = os.getpid(), getattr(_calls, "pipe", None), list[int]()
    _calls.pipe = pipe
    try:
        result = function(*arguments)
        # The body of a generator is part of the function.
        return [*result] if hasattr(result, "__next__") else result
    finally:
        _calls.pipe = outer
        if os.getpid() != process:
            with suppress(IndexError, OSError):  # forked by a library without Python's hooks, or after the call
                os.write(pipe[1], f"{os.getpid()} ".encode())
            os._exit(0)
        if pipe:
            _check_forks(*pipe)
