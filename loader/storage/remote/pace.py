"""Limit the requests to a bucket at one time, fewer of them when the service asks to slow down."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from .failures import Remedy, RequestFailure

__all__ = ["Pace"]

_CUT = 0.5
_PAUSE_S = 1.0  # answers to requests of the same moment cut the limit once


class Pace:
    """A limit of open requests: half of it after a 429 or 503, one more for each round of requests that succeed.

    Use it as a context around each request. Threads share it.

    Args:
        max_requests: The upper limit.

    Attributes:
        limit: The present limit.
    """

    def __init__(self, max_requests: int) -> None:
        self.limit = float(max_requests)
        self._max = max_requests
        self._open = 0
        self._cut_at = -_PAUSE_S
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        with self._changed:
            while self._open >= max(1, int(self.limit)):
                self._changed.wait()
            self._open += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._open -= 1
            if isinstance(error, RequestFailure) and error.remedy is Remedy.SLOW_DOWN:
                now = time.monotonic()
                if now - self._cut_at >= _PAUSE_S:
                    self.limit = max(1.0, self.limit * _CUT)
                    self._cut_at = now
            elif error is None:
                self.limit = min(float(self._max), self.limit + 1 / self.limit)
            self._changed.notify(2)
