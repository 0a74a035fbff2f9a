"""Limit the requests to a bucket at one time, fewer of them when the service asks to slow down."""

from __future__ import annotations

import threading
import time

from .failures import Remedy, RequestFailure

_WINDOW = 64  # requests over which the share of refused ones is averaged
_MAX_REFUSED = 0.06  # share; services refuse single requests at any load


class Pace:
    """A limit of open requests: halved if many get a 429 or 503, one more for each round of requests that succeed.

    Args:
        max_requests: The upper limit.

    Attributes:
        limit: The present limit.
    """

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
            if self._open - self._stalled + 1 > self.limit:
                self._waiting += 1
                while self._open - self._stalled + 1 > self.limit:
                    self._has_room.wait()
                self._waiting -= 1
            self._open += 1
        return time.monotonic()

    def end(self, started: float, failure: RequestFailure | None) -> None:
        """Count a request as ended.

        Args:
            started: What :meth:`begin` returned.
            failure: Its failure; None if it succeeded.
        """
        with self._lock:
            self._open -= 1
            if failure is None:
                self._refused -= self._refused / _WINDOW
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
