"""Limit the requests to a bucket at one time, fewer of them when the service asks to slow down."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .failures import Remedy, RequestFailure

__all__ = ["Pace"]


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
        self._max = max_requests
        self._open = 0
        self._stalled = 0
        self._refused = 0.0  # share of the last requests
        self._halved_at = 0.0
        self._changed = threading.Condition()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Wait until one more request may be sent; the context is the request. Threads may share the pace."""
        with self._changed:
            while self._open - self._stalled >= max(1, int(self.limit)):
                self._changed.wait()
            self._open += 1
        started = time.monotonic()
        try:
            yield
        except RequestFailure as failure:
            if failure.remedy is Remedy.SLOW_DOWN:
                self._note_refused(started)
            raise
        else:
            self._refused -= self._refused / _WINDOW
            self.limit = min(float(self._max), self.limit + 1 / self.limit)
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify(2)  # the limit grows by less than one

    def note_stalled(self, change: int) -> None:
        """Count one more (1) or one less (-1) request that was replaced by another one, and so takes no place."""
        with self._changed:
            self._stalled += change
            self._changed.notify()

    def _note_refused(self, started: float) -> None:
        """Halve the limit if many were refused since it was halved; those sent before say nothing about it."""
        with self._changed:
            if started < self._halved_at:
                return
            self._refused += (1 - self._refused) / _WINDOW
            if self._refused > _MAX_REFUSED:
                self.limit = max(1.0, self.limit / 2)
                self._refused = 0.0
                self._halved_at = time.monotonic()
