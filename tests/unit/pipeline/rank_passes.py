"""A source of micro-batches for stages that count on the rank; interrupted passes continue."""

from __future__ import annotations

from collections.abc import Iterator


class Passes:
    """Repeat the pass ``0, 1, … length - 1``, and count the calls of ``start_over``.

    Args:
        length: Micro-batches of a pass.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._next = 0
        self.asked = 0  # number of calls
        self.starts = 0

    def batches(self) -> Iterator[int]:
        self.asked += 1
        while self._next < self._length:
            self._next += 1
            yield self._next - 1
        self._next = 0

    def start_over(self) -> None:
        self.starts += 1
        self._next = 0
