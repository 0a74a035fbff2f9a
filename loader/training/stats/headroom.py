"""Try whether a loader is quicker than its training loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

from ...errors import ConfigError
from .snapshot import Headroom

_KEPT = 4  # micro-batches
_WARM_UP = 4  # steps, before the first round
_STEPS = 16  # measured in a phase


class HeadroomTrial:
    """Alternates new and cached micro-batches, and measures the steps of both."""

    def __init__(self, queued: Callable[[], int], *, rounds: int | None = None) -> None:
        if rounds is not None and rounds < 1:
            raise ConfigError(f"expected at least 1 of rounds, or None, found {rounds}")
        self._queued = queued
        self._rounds = rounds
        self.found = Headroom()

    @property
    def is_over(self) -> bool:
        return self._rounds is not None and self._rounds <= 0

    def alternated(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the micro-batches of an iteration, and cached ones in between."""
        unmeasured = _WARM_UP
        while True:
            if self.is_over:
                yield from batches
                return
            # Let the queues empty: these steps do not count.
            kept: deque[Any] = deque(maxlen=_KEPT)
            for _ in range(unmeasured):
                batch = next(batches, _END)
                if batch is _END:
                    return
                yield batch
                del batch
            # Measure steps with new micro-batches, and keep the last ones.
            begin_ns = perf_counter_ns()
            for _ in range(_STEPS):
                batch = next(batches, _END)
                if batch is _END:
                    return
                kept.append(batch)
                yield batch
                del batch
            loaded_ns = perf_counter_ns() - begin_ns
            # Measure as many steps with kept micro-batches; the first one still has work of the phase before.
            yield kept[0]
            begin_ns = perf_counter_ns()
            for step in range(_STEPS):
                yield kept[step % len(kept)]
            self._add(loaded_ns, perf_counter_ns() - begin_ns)
            unmeasured = 1 + self._queued()

    def _add(self, loaded_ns: int, cached_ns: int) -> None:
        before = self.found
        self.found = Headroom(
            loaded_steps=before.loaded_steps + _STEPS,
            loaded_s=before.loaded_s + loaded_ns / 1e9,
            cached_steps=before.cached_steps + _STEPS,
            cached_s=before.cached_s + cached_ns / 1e9,
        )
        if self._rounds is not None:
            self._rounds -= 1


_END: Any = object()
