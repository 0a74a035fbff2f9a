"""A clock that moves when a test says so, and by a little when it is read, for what statistics measure.

Forked workers and threads share it. What a busy machine takes for its own work does not count.
"""

from __future__ import annotations

import time
from importlib import import_module
from mmap import mmap
from multiprocessing import Lock

import pytest

_MEASURING = (
    "loader.pipeline.measuring.recorder",
    "loader.pipeline.reading.lane_reader",
    "loader.training.stats.meter",
    "loader.training.stats.headroom",
    "loader.training.workers.worker_threads",
)
"""The modules that import ``perf_counter_ns`` by name."""

_shared = mmap(-1, 8)
_lock = Lock()


def spend(seconds: float) -> None:
    """Let others work for some time, and move the clock then."""
    time.sleep(seconds)
    _move(seconds)


def now_ns() -> int:
    """Return the time, a tenth of a microsecond after the last reading: nothing takes no time at all."""
    return _move(1e-7)


def _move(seconds: float) -> int:
    with _lock:
        now = int.from_bytes(_shared[:8], "little") + int(seconds * 1e9)
        _shared[:8] = now.to_bytes(8, "little")
    return now


def install(patch: pytest.MonkeyPatch) -> None:
    """Let the statistics of loaders read this clock."""
    for module in _MEASURING:
        patch.setattr(import_module(module), "perf_counter_ns", now_ns)
    patch.setattr(time, "perf_counter_ns", now_ns)
    patch.setattr(time, "perf_counter", lambda: now_ns() / 1e9)
    _move(1.0)


@pytest.fixture
def logical_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
