"""Limit the time of calls: one that does not return is a failure of its sample, even if it hangs in compiled code."""

from __future__ import annotations

import faulthandler
import mmap
import os
import re
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

_CALL = struct.Struct("<qq")  # number of the first sample of a call, and how many samples it has
_GRACE_S = 1.0  # an interrupt that is late because the machine is busy must not end the process


class CallTimeoutError(BaseException):
    """A call took longer than allowed; code that handles every ``Exception`` does not hide it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimit:
    """The longest time of a call.

    Python code is interrupted. A call that does not return to Python ends the process after twice the time; the engine
    repeats the task, which then takes the sample of that call for failed.

    Attributes:
        seconds: The time.
        folder: Folder of this machine where processes leave a note of the call that ended them; None if a process must
            not be ended.
    """

    seconds: float
    folder: str | None


class TaskCalls:
    """The calls of one task.

    Args:
        first: Number of its first sample.

    Attributes:
        hung: The calls that have ended a process: number of the first sample, and how many samples.
    """

    def __init__(self, limit: CallLimit, first: int) -> None:
        self.hung: set[tuple[int, int]] = set()
        self._limit = limit
        self._is_main = threading.current_thread() is threading.main_thread()
        self._note: Any = None
        self._call: Any = None
        folder = limit.folder if self._is_main else None
        if folder is None:
            return
        os.makedirs(folder, exist_ok=True)
        self._path = path = os.path.join(folder, f"{first}.call")
        # The watchdog of a process that it ended has written behind the call.
        with suppress(FileNotFoundError), open(path, "rb") as left:
            data = left.read()
            if len(data) > _CALL.size:
                os.replace(path, "{}.{}.{}.hung".format(path[: -len(".call")], *_CALL.unpack_from(data)))
        names = (re.fullmatch(rf"{first}\.(\d+)\.(\d+)\.hung", name) for name in os.listdir(folder))
        self.hung = {(int(match[1]), int(match[2])) for match in names if match}
        # A mapped file also survives a process that is killed.
        self._note = open(path, "w+b", buffering=0)  # noqa: SIM115 - closed by close()
        self._note.write(bytes(_CALL.size))
        self._call = mmap.mmap(self._note.fileno(), _CALL.size)

    def call(self, function: Callable[[Any], Any], argument: Any, sample_index: int) -> Any:
        """Call the function for a sample; see :meth:`limited`."""
        with self.limited(sample_index):
            return function(argument)

    @contextmanager
    def limited(self, sample_index: int, count: int = 1) -> Iterator[None]:
        """Limit the time of the block, which calls the function.

        Args:
            sample_index: Number of the first sample of the call.
            count: Number of its samples.

        Raises:
            CallTimeoutError: The time is over, or the call has ended an earlier process.
        """
        if (sample_index, count) in self.hung:
            raise CallTimeoutError(self._message("its process was ended"))
        if not self._is_main:
            yield
            return
        seconds = self._limit.seconds
        if self._call is not None:
            self._call[:] = _CALL.pack(sample_index, count)
            faulthandler.dump_traceback_later(2 * seconds + _GRACE_S, exit=True, file=self._note)
        earlier = signal.signal(signal.SIGALRM, self._interrupt)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, earlier)
            if self._call is not None:
                faulthandler.cancel_dump_traceback_later()

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal calls it
        raise CallTimeoutError(self._message("it was interrupted"))

    def _message(self, what: str) -> str:
        return f"the call did not return within {self._limit.seconds:g} s, and {what}"

    def close(self) -> None:
        if self._note is not None:
            faulthandler.cancel_dump_traceback_later()
            self._call.close()
            self._note.close()
            os.unlink(self._path)
