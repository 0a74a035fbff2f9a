"""Fetch many byte ranges at a time, and those that take too long once more."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from queue import SimpleQueue

from ...errors import EnergonError

__all__ = ["Fetch", "Fetcher"]

_MIN_HEDGE_S = 0.2
_REMEMBERED = 256  # durations of a size class
_MIN_KNOWN = 16  # before requests are sent twice
_MAX_HEDGED = 0.03  # share of requests
_MAX_SLOW = 0.1  # share above which the service is slow, and not single requests
_SIZE_CLASSES = (64 << 10, 1 << 20)  # bytes


class Fetch:
    """A range that is being fetched.

    Args:
        fetcher: Sends the requests.
        read: Reads the range, with retries.
        size_bytes: Length of the range.
    """

    __slots__ = ("_fetcher", "_future", "_read", "_started", "size_bytes")

    def __init__(self, fetcher: Fetcher, read: Callable[[], bytes], size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._fetcher = fetcher
        self._read = read
        self._future = fetcher.start(read, size_bytes)

    def result(self) -> bytes:
        """Wait for the bytes.

        Raises:
            EnergonError: As by ``read``.
        """
        future = self._future
        if future.done():
            return future.result()
        limit_s = self._fetcher.hedge_after_s(self.size_bytes)
        if limit_s is None:
            return future.result()
        done, _ = wait([future], timeout=limit_s)
        if done or not future.running() or not self._fetcher.may_hedge():
            return future.result()
        return self._first_of(future, self._fetcher.start(self._read, self.size_bytes, hedge=True))

    def _first_of(self, *futures: Future[bytes]) -> bytes:
        done, others = wait(futures, return_when=FIRST_COMPLETED)
        try:
            return done.pop().result()
        except EnergonError:
            if not others:
                raise
            return others.pop().result()

    def cancel(self) -> None:
        """Drop the range if its request was not sent."""
        self._future.cancel()


class Fetcher:
    """Sends requests in threads.

    Args:
        max_requests: Requests at a time.
    """

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self._queue: SimpleQueue[tuple[Future[bytes], Callable[[], bytes], int]] = SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._durations_s = [deque[float](maxlen=_REMEMBERED) for _ in range(len(_SIZE_CLASSES) + 1)]
        self._sent = 0
        self._hedged = 0

    def start(self, read: Callable[[], bytes], size_bytes: int, *, hedge: bool = False) -> Future[bytes]:
        """Call ``read`` in a thread."""
        with self._lock:
            self._sent += not hedge
            self._hedged += hedge
            if self._queue.qsize() >= self._idle and self._threads < self._max_requests:
                self._threads += 1
                # Daemons: a process that ends does not wait for what nobody will use.
                threading.Thread(target=self._serve, daemon=True, name=f"fetch-{self._threads}").start()
        future: Future[bytes] = Future()
        self._queue.put((future, read, size_bytes))
        return future

    def run(self, task: Callable[[], object]) -> None:
        """Run a task in a thread; whoever needs its result does it again, so its error is of no interest."""

        def read() -> bytes:
            task()
            return b""

        self.start(read, 0, hedge=False)

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            future, read, size_bytes = self._queue.get()
            with self._lock:
                self._idle -= 1
            if not future.set_running_or_notify_cancel():
                continue
            started = time.monotonic()
            try:
                data = read()
            except BaseException as error:  # noqa: BLE001 - whoever waits raises it
                future.set_exception(error)
            else:
                self._durations_s[_size_class(size_bytes)].append(time.monotonic() - started)
                future.set_result(data)
            del future, read

    def hedge_after_s(self, size_bytes: int) -> float | None:
        """Return the seconds after which a range of this size is late; None if that is not known."""
        known = sorted(self._durations_s[_size_class(size_bytes)].copy())
        if len(known) < _MIN_KNOWN:
            return None
        return max(_MIN_HEDGE_S, 3 * known[len(known) // 2], 1.2 * known[int(0.95 * (len(known) - 1))])

    def may_hedge(self) -> bool:
        """Return True if few requests were late, so that another one will not add to an overload."""
        with self._lock:
            if self._hedged >= max(1, _MAX_HEDGED * self._sent):
                return False
        late = sum(len(known) - bisect_left(known, _MIN_HEDGE_S * 5) for known in map(sorted, self._durations_s))
        return late <= _MAX_SLOW * max(1, sum(map(len, self._durations_s)))


def _size_class(size_bytes: int) -> int:
    return bisect_left(_SIZE_CLASSES, size_bytes)
