"""The number of requests that a hub answers in a window: by kind, and by user or address."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["PLANS", "RateLimits"]


class Plan(NamedTuple):
    """The requests of a user in five minutes."""

    api: int
    resolvers: int
    pages: int


# As https://huggingface.co/docs/hub/rate-limits lists them (November 2026). Anonymous users are counted by address;
# each member of an organization has the limits of its plan.
PLANS = {
    "anonymous": Plan(500, 3_000, 100),
    "free": Plan(1_000, 5_000, 200),
    "pro": Plan(2_500, 12_000, 400),
    "team": Plan(3_000, 20_000, 400),
    "enterprise": Plan(6_000, 50_000, 600),
    "enterprise plus": Plan(10_000, 100_000, 1_000),
}
_NAMES = {"api": "api", "resolver": "resolvers", "page": "pages"}  # kind of a request → its name in the headers


@dataclass(slots=True)
class RateLimits:
    """The limits of a hub, in fixed windows.

    Attributes:
        window_s: Length of a window; all begin at once, when the hub starts.
        api: Requests to the API in a window, instead of the limit of the user's plan.
        resolvers: The same for the resolver.
        pages: The same for pages.
        is_on: Whether requests over the limit are refused; the headers are sent in any case.
    """

    window_s: float = 300.0
    api: int | None = None
    resolvers: int | None = None
    pages: int | None = None
    is_on: bool = True
    started: float = field(default_factory=time.monotonic)
    _window: int = 0
    _used: Counter[tuple[str, str]] = field(default_factory=Counter)

    def start_again(self) -> None:
        """Forget what was used, and begin a window."""
        self.started = time.monotonic()
        self._window = 0
        self._used.clear()

    def count(self, kind: str, who: str, plan: str) -> tuple[dict[str, str], bool]:
        """Count a request of a user or an address; returns the headers of its answer, and whether it is refused."""
        passed = time.monotonic() - self.started
        window = int(passed // self.window_s)
        if window != self._window:
            self._window = window
            self._used.clear()
        name = _NAMES[kind]
        override: int | None = getattr(self, name)
        limit: int = getattr(PLANS[plan], name) if override is None else override
        self._used[who, name] += 1
        left = limit - self._used[who, name]
        seconds = math.ceil((window + 1) * self.window_s - passed)
        headers = {
            "RateLimit": f'"{name}";r={max(0, left)};t={seconds}',
            "RateLimit-Policy": f'"fixed window";"{name}";q={limit};w={math.ceil(self.window_s)}',
        }
        is_refused = self.is_on and left < 0
        if is_refused:
            headers["Retry-After"] = str(seconds)
        return headers, is_refused
