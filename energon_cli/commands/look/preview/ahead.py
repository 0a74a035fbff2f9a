"""Compute what will be shown next, in a thread, while the user still sees the present sample."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

Job = tuple[Hashable, Callable[[], Any]]
"""A name, and the function that computes its result."""

_KEPT = 32  # results
_CLOSE_S = 2.0
_SETTLE_S = 0.03  # with a held key, what is wanted next is known soon; the guesses before would only delay it


class AheadWorker:
    """One thread that computes the wanted results, the most urgent first, and keeps the latest of them.

    Samples are read by this thread only, since no reader of a dataset has to be safe for several.
    """

    def __init__(self, on_done: Callable[[], None]) -> None:
        self._on_done = on_done
        self._wanted: Sequence[Job] = ()
        self._results: OrderedDict[Hashable, tuple[Any, BaseException | None]] = OrderedDict()
        self._changed = threading.Condition()
        self._closing = False
        self._may_guess_at = 0.0
        self._thread = threading.Thread(target=self._run, name="energon-preview", daemon=True)
        self._thread.start()

    def want(self, jobs: Sequence[Job]) -> None:
        """Replace the wanted results; the computation that is running is finished."""
        with self._changed:
            self._wanted = jobs
            self._changed.notify()

    def get(self, name: Hashable) -> Any | None:
        """Return a result, or None if it is not computed yet; raise the error of its function."""
        with self._changed:
            if name not in self._results:
                return None
            self._results.move_to_end(name)
            result, error = self._results[name]
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the thread, after the computation that is running; one that takes long is abandoned."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (job := self._take()) is not None:
            result, error = None, None
            try:
                result = job[1]()
            except BaseException as raised:  # noqa: BLE001 - get() raises it in the caller's thread
                error = raised
            with self._changed:
                self._results[job[0]] = (result, error)
                while len(self._results) > _KEPT + len(self._wanted):
                    self._results.popitem(last=False)
                if self._wanted and job[0] == self._wanted[0][0]:
                    self._may_guess_at = time.monotonic() + _SETTLE_S
            self._on_done()

    def _take(self) -> Job | None:
        """Wait for the next job; None: the worker closes."""
        with self._changed:
            while not self._closing:
                job = next((job for job in self._wanted if job[0] not in self._results), None)
                wait_s = self._may_guess_at - time.monotonic()
                if job is not None and (job is self._wanted[0] or wait_s <= 0):
                    return job
                self._changed.wait(None if job is None else wait_s)
        return None
