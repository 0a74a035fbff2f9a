"""Fetch many byte ranges at a time, and those that take too long once more."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from .pace import Pace

__all__ = ["Fetch", "Fetcher"]

_MIN_HEDGE_S = 0.2
_REMEMBERED = 256  # durations of a size class
_RECKONED_EVERY = 16  # requests of a size class; before the first 16, none is sent twice
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

    __slots__ = (
        "_arrived",
        "_data",
        "_error",
        "_fetcher",
        "_owner",
        "_read",
        "attempts",
        "is_done",
        "is_hedged",
        "is_late",
        "is_started",
        "size_bytes",
    )

    def __init__(self, fetcher: Fetcher, read: Callable[[Callable[[], bool]], bytes], size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.attempts = 0  # queued and running ones
        self.is_hedged = False
        self.is_late = False
        self.is_started = False
        self.is_done = False
        self._data: bytes | None = None
        self._error: BaseException | None = None
        self._fetcher = fetcher
        self._read = read
        self._owner = os.getpid()
        # One bare lock: a future with its condition takes longer than all else of the hand-over.
        self._arrived = threading.Lock()
        self._arrived.acquire()
        fetcher.start(self)

    def read(self) -> bytes:
        """Read the range; a request that fails after another one has succeeded is not sent again."""
        return self._read(lambda: not self.is_done)

    def result(self) -> bytes:
        """Wait for the bytes.

        Raises:
            EnergonError: As by ``read``.
        """
        if self._data is None and self._error is None:
            if self._owner != os.getpid():  # the threads stayed in the process that forked this one
                return self.read()
            self._wait()
        if self._error is not None:
            raise self._error
        return self._data or b""

    def _wait(self) -> None:
        limit_s = self._fetcher.hedge_after_s(self.size_bytes)
        if limit_s is None:
            self._arrived.acquire()
        else:
            is_late = not self._arrived.acquire(timeout=limit_s)
            while is_late and not self.is_started:  # others of the queue were waited for
                is_late = not self._arrived.acquire(timeout=limit_s)
            if is_late:
                self.is_late = True
                self._fetcher.hedge(self)
                self._arrived.acquire()
        self._arrived.release()  # other threads may wait, too

    def finish(self, data: bytes | None, error: BaseException | None) -> None:
        """Hand over the result to the threads that wait for it."""
        self._data, self._error = data, error
        self._arrived.release()


class _Durations:
    """The times of the last requests of one size class."""

    def __init__(self) -> None:
        self._seconds = deque[float](maxlen=_REMEMBERED)
        self._added = 0
        self.hedge_after_s: float | None = None

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)
        self._added += 1
        if self._added % _RECKONED_EVERY == 0:
            known = sorted(self._seconds)
            self.hedge_after_s = max(
                _MIN_HEDGE_S, 3 * known[len(known) // 2], 1.2 * known[int(0.95 * (len(known) - 1))]
            )


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
        self._queue: SimpleQueue[Fetch] = SimpleQueue()
        self._threads = 0
        self._unfinished = 0
        self._lock = threading.Lock()
        self._durations = [_Durations() for _ in range(len(_SIZE_CLASSES) + 1)]
        self._late = deque[bool](maxlen=_REMEMBERED)
        self._sent = 0
        self._hedged = 0

    def start(self, fetch: Fetch) -> None:
        """Read a range in a thread."""
        with self._lock:
            self._sent += 1
            fetch.attempts += 1
            self._unfinished += 1
            if self._threads < min(self._unfinished, self._max_requests + self._stalled):
                self._start_thread()
        self._queue.put(fetch)

    def _start_thread(self) -> None:
        # Daemons: a process that ends does not wait for bytes that it does not use.
        thread = threading.Thread(target=self._serve, daemon=True, name=f"fetch-{self._threads + 1}")
        try:
            thread.start()
        except RuntimeError:  # the system allows no more threads: those that run serve all
            if not self._threads:
                self._unfinished -= 1
                raise
        else:
            self._threads += 1

    def hedge(self, fetch: Fetch) -> None:
        """Read a range that is late once more, unless so many are late that it would add to an overload."""
        with self._lock:
            self._late.append(True)
            if fetch.is_done or fetch.is_hedged or not fetch.is_started:
                return
            if self._hedged + 1 > _MAX_HEDGED * self._sent or sum(self._late) > _MAX_LATE * len(self._late):
                return
            # A thread of its own: those of the queue have other ranges to fetch first.
            thread = threading.Thread(target=self._serve_one, args=(fetch,), daemon=True, name="fetch-again")
            try:
                thread.start()  # it counts its end under the lock, so after what follows
            except RuntimeError:  # the system allows no more threads
                return
            self._hedged += 1
            self._stalled += 1
            fetch.attempts += 1
            fetch.is_hedged = True
        self._pace.note_stalled(1)

    def run(self, task: Callable[[], object]) -> None:
        """Run a task in a thread, and ignore its errors: the reader of its result repeats it."""

        def read(_is_wanted: Callable[[], bool]) -> bytes:
            task()
            return b""

        Fetch(self, read, 0)

    def _serve(self) -> None:
        while True:
            fetch = self._queue.get()
            fetch.is_started = True
            self._serve_one(fetch)
            with self._lock:
                self._unfinished -= 1
                self._stalled -= fetch.is_hedged
            if fetch.is_hedged:
                self._pace.note_stalled(-1)
            del fetch  # its bytes may be many

    def _serve_one(self, fetch: Fetch) -> None:
        started = time.monotonic()
        data, error = None, None
        try:
            data = fetch.read()
        except BaseException as raised:  # noqa: BLE001 - the waiting thread raises it
            error = raised
        with self._lock:
            fetch.attempts -= 1
            if data is not None and fetch.size_bytes:
                self._durations[_size_class(fetch.size_bytes)].add(time.monotonic() - started)
            if fetch.is_done or (error is not None and fetch.attempts):  # another attempt may succeed
                return
            fetch.is_done = True
            if not fetch.is_late:
                self._late.append(False)
        fetch.finish(data, error)

    def hedge_after_s(self, size_bytes: int) -> float | None:
        """Return the seconds after which a range of this size is late; None if that is not known."""
        return self._durations[_size_class(size_bytes)].hedge_after_s


def _size_class(size_bytes: int) -> int:
    return bisect_left(_SIZE_CLASSES, size_bytes)
