"""Fetch many byte ranges at a time, and fetch a late one a second time."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue

from .failures import Remedy, RequestFailure

# Few requests are sent a second time, and late enough that most have arrived.
_MIN_HEDGE_S = 0.2
_REMEMBERED = 256  # durations of a size class
_RECKONED_EVERY = 16  # requests of a size class; the first 16 are not repeated
_MAX_HEDGED = 0.03  # share of requests
_MAX_LATE = 0.1  # share above which the service is slow, and not single requests
_SIZE_CLASSES = (64 << 10, 1 << 20)  # bytes


@dataclass(slots=True, eq=False)
class _Request:
    """A range that is fetched by one thread, or by two if the first one is late."""

    read: Callable[[Callable[[], bool]], bytes]  # reads the range, with retries while a function returns True
    size_bytes: int
    attempts: int = 0  # queued and running ones
    is_hedged: bool = False
    is_late: bool = False
    is_started: bool = False
    is_done: bool = False
    is_wanted: bool = True
    data: bytes | None = None
    error: BaseException | None = None
    # One bare lock: a future with its condition takes longer than all else of the hand-over.
    arrived: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.arrived.acquire()

    def is_awaited(self) -> bool:
        """Return True if the bytes are neither here nor given up, so that a failed attempt is repeated."""
        return self.is_wanted and not self.is_done


class Fetch:
    """A range that is being fetched; given up when nothing refers to it any more.

    Args:
        read: Reads the range, with retries while a function returns True.
    """

    __slots__ = ("_fetcher", "_owner", "_request")

    def __init__(self, fetcher: Fetcher, read: Callable[[Callable[[], bool]], bytes], size_bytes: int) -> None:
        self._request = _Request(read, size_bytes)
        self._fetcher = fetcher
        self._owner = os.getpid()
        fetcher.start(self._request)

    def __del__(self) -> None:
        self._request.is_wanted = False

    def is_done(self) -> bool:
        return self._request.is_done

    def result(self) -> bytes:
        request = self._request
        if request.data is None and request.error is None:
            if self._owner != os.getpid():  # the threads stayed in the process that forked this one
                return request.read(lambda: True)
            self._wait(request)
        if request.error is not None:
            raise request.error
        return request.data or b""

    def _wait(self, request: _Request) -> None:
        # Without enough durations of this size, a late request is not known.
        limit_s = self._fetcher.hedge_after_s(request.size_bytes)
        if limit_s is None:
            request.arrived.acquire()
        else:
            # Time in the queue is not the service's: the clock of a request starts with it.
            is_late = not request.arrived.acquire(timeout=limit_s)
            while is_late and not request.is_started:  # others of the queue were waited for
                is_late = not request.arrived.acquire(timeout=limit_s)
            if is_late:
                request.is_late = True
                self._fetcher.hedge(request)
                request.arrived.acquire()
        request.arrived.release()  # other threads may wait, too


class _Durations:
    def __init__(self) -> None:
        self._seconds = deque[float](maxlen=_REMEMBERED)
        self._added = 0
        self.hedge_after_s: float | None = None

    def add(self, seconds: float) -> None:
        # Reckon now and then: sorting after each request would cost more than it helps.
        self._seconds.append(seconds)
        self._added += 1
        if self._added % _RECKONED_EVERY == 0:
            known = sorted(self._seconds)
            # Late means later than nearly all others, and far from the median if all are alike.
            self.hedge_after_s = max(
                _MIN_HEDGE_S, 3 * known[len(known) // 2], 1.2 * known[int(0.95 * (len(known) - 1))]
            )


class Fetcher:
    """Sends requests in threads.

    Attributes:
        pace: The limit of requests. It counts those that were sent a second time, which take no place while they last.
    """

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self.pace = Pace(max_requests)
        self._stalled = 0
        self._queue: SimpleQueue[_Request] = SimpleQueue()
        self._threads = 0
        self._unfinished = 0
        self._lock = threading.Lock()
        self._durations = [_Durations() for _ in range(len(_SIZE_CLASSES) + 1)]
        self._late = deque[bool](maxlen=_REMEMBERED)
        self._sent = 0
        self._hedged = 0

    def start(self, request: _Request) -> None:
        # Start a thread only if all running ones may be busy, up to the limit.
        with self._lock:
            self._sent += 1
            request.attempts += 1
            self._unfinished += 1
            if self._threads < min(self._unfinished, self._max_requests + self._stalled):
                self._start_thread()
        self._queue.put(request)

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

    def hedge(self, request: _Request) -> None:
        """Read a late range a second time, unless many are late: the requests would add to an overload."""
        with self._lock:
            self._late.append(True)
            if request.is_done or request.is_hedged or not request.is_started:
                return
            if self._hedged + 1 > _MAX_HEDGED * self._sent or sum(self._late) > _MAX_LATE * len(self._late):
                return
            # A thread of its own: those of the queue have other ranges to fetch first.
            thread = threading.Thread(target=self._serve_one, args=(request,), daemon=True, name="fetch-again")
            try:
                thread.start()  # it counts its end under the lock, so after what follows
            except RuntimeError:  # the system allows no more threads
                return
            self._hedged += 1
            self._stalled += 1
            request.attempts += 1
            request.is_hedged = True
        self.pace.note_stalled(1)

    def run(self, task: Callable[[], object]) -> None:
        """Run a task in a thread, and ignore its errors: the reader of its result repeats it."""

        def read(_is_wanted: Callable[[], bool]) -> bytes:
            task()
            return b""

        self.start(_Request(read, 0))

    def _serve(self) -> None:
        while True:
            request = self._queue.get()
            request.is_started = True
            if request.is_wanted:
                self._serve_one(request)
            with self._lock:
                self._unfinished -= 1
                self._stalled -= request.is_hedged
            if request.is_hedged:
                self.pace.note_stalled(-1)
            del request  # its bytes may be many

    def _serve_one(self, request: _Request) -> None:
        started = time.monotonic()
        data, error = None, None
        try:
            data = request.read(request.is_awaited)
        except BaseException as raised:  # noqa: BLE001 - the waiting thread raises it
            error = raised
        # Count this attempt, and leave the result to the first one that succeeds.
        with self._lock:
            request.attempts -= 1
            if data is not None and request.size_bytes:
                self._durations[_size_class(request.size_bytes)].add(time.monotonic() - started)
            if request.is_done or (error is not None and request.attempts):  # another attempt may succeed
                return
            request.is_done = True
            if not request.is_late:
                self._late.append(False)
        request.data, request.error = data, error
        request.arrived.release()

    def hedge_after_s(self, size_bytes: int) -> float | None:
        return self._durations[_size_class(size_bytes)].hedge_after_s


def _size_class(size_bytes: int) -> int:
    return bisect_left(_SIZE_CLASSES, size_bytes)


_WINDOW = 64  # requests over which the share of refused ones is averaged
_MAX_REFUSED = 0.06  # share; services refuse single requests at any load


class Pace:
    """A limit of open requests: halved if many get a 429 or 503, one more for each round of requests that succeed."""

    def __init__(self, max_requests: int) -> None:
        self.limit = float(max_requests)
        self._max = float(max_requests)
        self._open = 0
        self._stalled = 0
        self._refused = 0.0  # share of the last requests
        self._halved_at = 0.0
        self._lock = threading.Lock()
        self._has_room = threading.Condition(self._lock)
        self._waiting = 0

    def begin(self) -> float:
        """Wait until one more request may be sent; return the time for :meth:`end`. Threads may share the pace."""
        with self._lock:
            # Requests that were replaced take no place: their servers may never answer.
            if self._open - self._stalled + 1 > self.limit:
                self._waiting += 1
                while self._open - self._stalled + 1 > self.limit:
                    self._has_room.wait()
                self._waiting -= 1
            self._open += 1
        return time.monotonic()

    def end(self, started: float, failure: RequestFailure | None) -> None:
        """Count a request as ended; ``started`` is what :meth:`begin` returned, ``failure`` None after a success."""
        with self._lock:
            self._open -= 1
            if failure is None:
                # An average over the last requests, which needs no list of them.
                self._refused -= self._refused / _WINDOW
                # As many successes as the limit raise it by one.
                if self.limit < self._max:
                    self.limit = min(self._max, self.limit + 1 / self.limit)
            elif failure.remedy is Remedy.SLOW_DOWN and started >= self._halved_at:
                # Requests that were sent before the limit was halved say nothing about the new limit.
                self._note_refused()
            if self._waiting:
                self._has_room.notify(2)  # the limit grows by less than one

    def _note_refused(self) -> None:
        self._refused += (1 - self._refused) / _WINDOW
        if self._refused > _MAX_REFUSED:
            self.limit = max(1.0, self.limit / 2)
            self._refused = 0.0
            self._halved_at = time.monotonic()

    def note_stalled(self, change: int) -> None:
        """Count one more (1) or one less (-1) request that was replaced by another one, and so takes no place."""
        with self._lock:
            self._stalled += change
            self._has_room.notify()
