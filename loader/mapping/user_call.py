"""Call the function of a user, so that a process that it forks never runs the code behind the call."""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_PROCESS = struct.Struct("<q")
_WAIT_S = 1.0  # for a forked process that runs still: one of multiprocessing may do so for good


class CallEndedError(RuntimeError):
    """A call has ended its process, or forked it and the new process returned."""


class _Forks:
    """The forks of this process.

    Attributes:
        process: Its number.
        count: How often it has forked.
        shared: Memory with the number of the last forked process that left a call, or 0.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.count = 0
        self.shared = mmap.mmap(-1, _PROCESS.size)
        os.register_at_fork(after_in_parent=self._add)

    def _add(self) -> None:
        self.count += 1

    def left(self) -> int:
        """Return the number of the last forked process that left a call, or 0."""
        return int(_PROCESS.unpack_from(self.shared)[0])

    def check(self) -> None:
        """Raise an error if a forked process has left a call; wait for one that may do so soon."""
        end = time.monotonic() + _WAIT_S
        with suppress(ChildProcessError, AttributeError):  # there are no other processes; macOS does not say
            while not self.left() and time.monotonic() < end:
                if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    break  # it has ended
                time.sleep(0.001)
        if process := self.left():
            self.shared[:] = _PROCESS.pack(0)
            with suppress(ChildProcessError):  # the function has waited for it, or it is the child of another
                os.waitpid(process, 0)
            raise CallEndedError(
                "the function forked its process, and the new process returned from the function, where it was ended:"
                " end it by os._exit, or use subprocess"
            )


_forks: _Forks | None = None  # a worker that was forked makes others


def call_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns for arguments, and the items of an iterator that it returns as a list.

    A process that the function forks ends where it leaves the function.

    Raises:
        CallEndedError: There was such a process.
        Exception: The function raised this error.
    """
    global _forks  # noqa: PLW0603 - of this process
    process = os.getpid()
    if _forks is None or _forks.process != process:
        _forks = _Forks()
    forks, count = _forks, _forks.count
    try:
        result = function(*arguments)
        # The body of a generator is part of the function.
        return [*result] if hasattr(result, "__next__") else result
    finally:
        if (process_now := os.getpid()) != process:
            forks.shared[:] = _PROCESS.pack(process_now)
            os._exit(0)
        if forks.count != count or forks.left():
            forks.check()
