"""Samples left out on purpose, one after another: a run in which no sample is left must not go on in silence."""

from __future__ import annotations

import logging

from ..errors import SampleError

__all__ = ["EndlessSkips"]

_log = logging.getLogger(__name__)

_WARNED = 10_000
_STOPPED = 1_000_000


class EndlessSkips:
    """Counts the samples in a row that a hook leaves out in a lane: warns of 10,000, and stops the run at a million.

    Args:
        name: What the hook is called.
        lane: The lane's number.
    """

    __slots__ = ("_lane", "_name", "count")

    def __init__(self, name: str, lane: int) -> None:
        self._name = name
        self._lane = lane
        self.count = 0
        """How many were left out in a row; to be set to 0 where one is not."""

    def add(self) -> None:
        """Count one more.

        Raises:
            SampleError: There were a million.
        """
        self.count += 1
        if self.count == _WARNED:
            _log.warning(
                "%s has left out the last %d samples of lane %d; is that wanted?", self._name, self.count, self._lane
            )
        elif self.count >= _STOPPED:
            raise SampleError(
                f"{self._name} has left out {self.count} samples in a row in lane {self._lane}",
                do="look at what it leaves out (SkipSample, or a filter): the run would wait for a sample for ever",
            )
