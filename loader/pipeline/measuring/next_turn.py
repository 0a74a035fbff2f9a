"""When a worker counts its samples, or sends its counts, the next time."""

from __future__ import annotations

_EARLY_BATCHES = 128  # up to which each is a turn, so that the counts of short runs are exact


class NextTurn:
    """The next turn of something that is done from time to time: after a while, or some more micro-batches.

    A worker may make its first micro-batch in minutes, or many in the time of a short wait. So few micro-batches are
    missing at any time, whatever their rate is, and turns become rare in proportion.

    Args:
        share: Of the micro-batches until now, those that may be missing.
    """

    __slots__ = ("_batches", "_ns", "_share")

    def __init__(self, share: float) -> None:
        self._share = share
        self._batches = self._ns = 0

    def is_due(self, batches: int, now_ns: int) -> bool:
        """Check whether it is time, or enough micro-batches were made."""
        return now_ns >= self._ns or batches >= self._batches

    def begin_wait(self, batches: int, now_ns: int, *, wait_ns: int) -> None:
        """Wait for this time, or for more micro-batches."""
        self._ns = now_ns + wait_ns
        self._batches = batches if batches < _EARLY_BATCHES else batches + int(self._share * batches)
