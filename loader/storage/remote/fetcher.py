"""Fetch many byte ranges at a time, and those that take too long once more."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from queue import SimpleQueue

from ...errors import EnergonError
from .pace import Pace

__all__ = ["Fetch", "Fetcher"]

_MIN_HEDGE_S = 0.2
_REMEMBERED = 256  # durations of a size class
_MIN_KNOWN = 16  # before requests are sent twice
_MAX_HEDGED = 0.03  # share of requests
_MAX_LATE = 0.1  # share above which the service is slow, and not single requests
_SIZE_CLASSES = (64 << 10, 1 << 20)  # bytes


class Fetch:
    """A range that is being fetched.

    Args:
        fetcher: Sends the requests.
        read: Reads the range, with retries while a function returns True.
        size_bytes: Length of the range.
    """

    __slots__ = ("_fetcher", "_future", "_has_bytes", "_owner", "_read", "size_bytes")

    def __init__(self, fetcher: Fetcher, read: Callable[[Callable[[], bool]], bytes], size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._fetcher = fetcher
        self._owner = os.getpid()
        self._has_bytes = False
        self._read = partial(read, self._is_wanted)
        self._future = fetcher.start(self._read, size_bytes)

    def _is_wanted(self) -> bool:
        return not self._has_bytes

    def result(self) -> bytes:
        """Wait for the bytes.

        Raises:
            EnergonError: As by ``read``.
        """
        if self._owner != os.getpid():  # the threads stayed in the process that forked this one
            return self._read()
        future = self._future
        limit_s = None if future.done() else self._fetcher.hedge_after_s(self.size_bytes)
        done = limit_s is None or wait([future], timeout=limit_s).done
        while not done and not future.running():  # others of the queue were waited for
            done = wait([future], timeout=limit_s).done
        self._fetcher.note_late(is_late=not done)
        second = None if done else self._fetcher.hedge(future, self._read)
        return future.result() if second is None else self._first_of(future, second)

    def _first_of(self, *futures: Future[bytes]) -> bytes:
        done, others = wait(futures, return_when=FIRST_COMPLETED)
        try:
            data = done.pop().result()
        except EnergonError:
            if not others:
                raise
            data = others.pop().result()
        self._has_bytes = True
        return data


class Fetcher:
    """Sends requests in threads.

    Args:
        max_requests: Requests at a time.
        pace: Counts the requests that were sent a second time, which take no place while they last.
    """

    def __init__(self, max_requests: int, pace: Pace) -> None:
        self._max_requests = max_requests
        self._pace = pace
        self._stalled = 0
        self._queue: SimpleQueue[tuple[Future[bytes], Callable[[], bytes], int]] = SimpleQueue()
        self._threads = 0
        self._unfinished = 0
        self._lock = threading.Lock()
        self._durations_s = [deque[float](maxlen=_REMEMBERED) for _ in range(len(_SIZE_CLASSES) + 1)]
        self._late = deque[bool](maxlen=_REMEMBERED)
        self._sent = 0
        self._hedged = 0

    def start(self, read: Callable[[], bytes], size_bytes: int) -> Future[bytes]:
        """Call ``read`` in a thread."""
        with self._lock:
            self._sent += 1
        return self._start(read, size_bytes)

    def hedge(self, late: Future[bytes], read: Callable[[], bytes]) -> Future[bytes] | None:
        """Call ``read`` once more; return None if so many are late that it would add to an overload."""
        with self._lock:
            if self._hedged + 1 > _MAX_HEDGED * self._sent or sum(self._late) > _MAX_LATE * len(self._late):
                return None
            self._hedged += 1
        self._note_stalled(1)
        late.add_done_callback(lambda _: self._note_stalled(-1))
        second: Future[bytes] = Future()
        # A thread of its own: those of the queue have other ranges to fetch first.
        threading.Thread(target=_serve_one, args=(second, read), daemon=True, name="fetch-again").start()
        return second

    def _note_stalled(self, change: int) -> None:
        with self._lock:
            self._stalled += change
        self._pace.note_stalled(change)

    def note_late(self, *, is_late: bool) -> None:
        """Remember whether a range that was waited for took too long."""
        self._late.append(is_late)

    def _start(self, read: Callable[[], bytes], size_bytes: int) -> Future[bytes]:
        with self._lock:
            self._unfinished += 1
            if self._threads < min(self._unfinished, self._max_requests + self._stalled):
                self._threads += 1
                # Daemons: a process that ends does not wait for bytes that it does not use.
                threading.Thread(target=self._serve, daemon=True, name=f"fetch-{self._threads}").start()
        future: Future[bytes] = Future()
        self._queue.put((future, read, size_bytes))
        return future

    def run(self, task: Callable[[], object]) -> None:
        """Run a task in a thread, and ignore its errors: the reader of its result repeats it."""

        def read() -> bytes:
            task()
            return b""

        self.start(read, 0)

    def _serve(self) -> None:
        while True:
            future, read, size_bytes = self._queue.get()
            future.set_running_or_notify_cancel()
            started = time.monotonic()
            if _serve_one(future, read) and size_bytes:
                self._durations_s[_size_class(size_bytes)].append(time.monotonic() - started)
            del future, read
            with self._lock:
                self._unfinished -= 1

    def hedge_after_s(self, size_bytes: int) -> float | None:
        """Return the seconds after which a range of this size is late; None if that is not known."""
        known = sorted(self._durations_s[_size_class(size_bytes)].copy())
        if len(known) < _MIN_KNOWN:
            return None
        return max(_MIN_HEDGE_S, 3 * known[len(known) // 2], 1.2 * known[int(0.95 * (len(known) - 1))])


def _serve_one(future: Future[bytes], read: Callable[[], bytes]) -> bool:
    """Set the result of a future; return False if that is an error."""
    try:
        data = read()
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        future.set_exception(error)
        return False
    future.set_result(data)
    return True


def _size_class(size_bytes: int) -> int:
    return bisect_left(_SIZE_CLASSES, size_bytes)
