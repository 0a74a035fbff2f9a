"""Limit the time of calls, and note the call that ends its process: both are failures of a sample."""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from uuid import UUID, uuid4

from ..errors import ConfigError
from ..escaped_log import get_logger
from .user_call import CallEndedError, CallTimeoutError, call_user

_NOTE = struct.Struct("<qq")  # number of the first sample of a call, and how many samples; 0 between calls
_START = (-1, 1)  # the call that makes the function, such as a model
_GRACE_S = 1.0  # an interrupt that is late because the machine is busy must not end the process
_DEATHS = 2  # of processes in the same call: one may be chance, as when memory is short for a moment
_MOST_ENDED = 10  # calls of a task that end processes: each costs a start of all workers
_STILL_S = 30  # between two messages while the function is made
_HUNG = "did not return in time, and was ended"

_log = get_logger("loader.mapping")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimit:
    """The longest time of a call, and of the call that makes the function.

    Python code is interrupted. A call that does not return to Python ends the process after twice the time; the engine
    repeats the task, which then takes the sample of that call for failed. So it does with the sample of a call that
    has ended two processes.

    Attributes:
        seconds: The time; None for any.
        start_seconds: The time to make the function; None for any.
        folder: Folder where each task notes its call in ``{first sample of the task}.{run}.call``, and the command, or
            the next process, notes the calls that have ended processes in ``{first}.deaths``; None for no notes.
        is_repeated: An executor repeats a task whose process ended; the next process notes its call.
        command: Number of the process of the command, which is not ended.
        run: Distinguishes the command from earlier ones, which were killed in calls that did not end their processes.
    """

    seconds: float | None = None
    start_seconds: float | None = None
    folder: str | None = None
    is_repeated: bool = False
    command: int = field(default_factory=os.getpid)
    run: UUID = field(default_factory=uuid4)

    def note_death(self, first: int, how: str) -> bool:
        """Note that the process of a task ended; return True if a repeated task may pass over the call.

        Args:
            first: Number of the first sample of the task.
            how: How it ended, such as "ended with code 7".
        """
        note = b""
        with suppress(FileNotFoundError), open(self.path(first, f"{self.run}.call"), "rb") as file:
            note = file.read()
        sample_index, count = _NOTE.unpack_from(note.ljust(_NOTE.size, b"\0"))
        if not count:
            return False
        hung = len(note) > _NOTE.size  # its watchdog has written behind the call
        with open(self.path(first, "deaths"), "a", encoding="utf-8") as deaths:
            deaths.write(f"{sample_index} {count} {_HUNG if hung else how}\n")
        os.unlink(self.path(first, f"{self.run}.call"))
        return len(self.deaths(first)) <= _MOST_ENDED

    def deaths(self, first: int) -> dict[tuple[int, int], list[str]]:
        """Return how the processes of each call of a task have ended: of its first sample, and how many samples."""
        calls: dict[tuple[int, int], list[str]] = {}
        with suppress(FileNotFoundError), open(self.path(first, "deaths"), encoding="utf-8") as deaths:
            for line in deaths:
                sample_index, count, how = line.rstrip("\n").split(" ", 2)
                calls.setdefault((int(sample_index), int(count)), []).append(how)
        return calls

    def path(self, first: int, name: str) -> str:
        return os.path.join(self.folder or "", f"{first}.{name}")


class TaskCalls:
    """The calls of one task.

    Args:
        first: Number of its first sample.
    """

    def __init__(self, limit: CallLimit, first: int) -> None:
        self._limit = limit
        self._is_main = threading.current_thread() is threading.main_thread()
        self._note: Any = None
        self._call: Any = None
        self._deaths: dict[tuple[int, int], list[str]] = {}
        if limit.folder is not None and limit.command != os.getpid():
            os.makedirs(limit.folder, exist_ok=True)
            if limit.is_repeated:
                limit.note_death(first, "ended")
            self._deaths = limit.deaths(first)
            # A mapped file also survives a process that is killed.
            self._note = open(limit.path(first, f"{limit.run}.call"), "w+b", buffering=0)  # noqa: SIM115 - see close()
            self._note.write(bytes(_NOTE.size))
            self._call = mmap.mmap(self._note.fileno(), _NOTE.size)

    def _note_call(self, sample_index: int = 0, count: int = 0) -> None:
        if self._call is not None:
            self._call[:] = _NOTE.pack(sample_index, count)

    def start(self, make: Callable[[], Any], name: str) -> Any:
        """Return what the call that makes the function returns.

        Raises:
            ConfigError: It does not return in time, or ends its process.
        """
        is_made = threading.Event()
        threading.Thread(target=_say_it_starts, args=(is_made, name), daemon=True).start()
        try:
            with self.limited(*_START, seconds=self._limit.start_seconds):
                return call_user(make)
        except (CallTimeoutError, CallEndedError) as error:
            raise ConfigError(
                f"the function cannot be made: {error}",
                at=name,
                hint="correct its __init__, or allow it more time with --start-timeout S",
            ) from error
        finally:
            is_made.set()

    @contextmanager
    def limited(self, sample_index: int, count: int = 1, *, seconds: float | None = None) -> Iterator[None]:
        """Limit the time of the block, which calls the function.

        Args:
            sample_index: Number of the first sample of the call.
            count: Number of its samples.
            seconds: The time; None for the time of calls.

        Raises:
            CallTimeoutError: The time is over.
            CallEndedError: The call has ended earlier processes.
        """
        ways = self._deaths.get((sample_index, count), [])
        if _HUNG in ways or len(ways) >= _DEATHS:
            raise CallEndedError(f"the process of the call {ways[-1]}")
        # Calls in the main thread of a worker never run side by side.
        with nullcontext() if self._is_main or self._call is None else _taking_turns(alone=bool(ways)):
            self._note_call(sample_index, count)
            try:
                with self._interrupted_after(seconds or self._limit.seconds):
                    yield
            finally:
                self._note_call()

    @contextmanager
    def _interrupted_after(self, seconds: float | None) -> Iterator[None]:
        if seconds is None or not self._is_main:
            yield
            return

        def interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
            raise CallTimeoutError(f"the call did not return within {seconds:g} s, and it was interrupted")

        if self._note is not None:
            faulthandler.dump_traceback_later(2 * seconds + _GRACE_S, exit=True, file=self._note)
        earlier = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, earlier)
            faulthandler.cancel_dump_traceback_later()

    def close(self) -> None:
        if self._note is not None:
            self._call.close()
            self._note.close()
            with suppress(FileNotFoundError):
                os.unlink(self._note.name)


_running: list[bool] = []  # calls of the threads of a worker of Dask: True for one that runs alone
_changed = threading.Condition()


@contextmanager
def _taking_turns(*, alone: bool) -> Iterator[None]:
    """Run a call alone that may have ended a process, so that no other call is blamed for its next end."""
    with _changed:
        _changed.wait_for(lambda: True not in _running)
        _running.append(alone)
        _changed.wait_for(lambda: not alone or len(_running) == 1)
    try:
        yield
    finally:
        with _changed:
            _running.remove(alone)
            _changed.notify_all()


def _say_it_starts(is_made: threading.Event, name: str) -> None:
    while not is_made.wait(_STILL_S):
        _log.warning("%s is not ready yet: it is still being made", name)
