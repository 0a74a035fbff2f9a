"""Decide when a lane of a repeated dataset, after passes without an item, ends, and when the run does."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import RepeatedSampleError
from ...escaped_log import get_logger
from .policy import FailurePolicy

_log = get_logger(__name__)

_MAX_EMPTY = 20
"""Consecutive empty passes after which a lane ends, for each part of a pass of which a worker has one. A dataset with
fewer samples than lanes deals them to other lanes in each pass, so some empty passes are normal. A lane that has one
item in an average pass ends by chance with a probability of 2e-9."""


class EmptyPasses:
    """The consecutive passes of a lane without an item.

    Args:
        failures: The lane's policy, which counts the samples that hooks and filters drop.
        lane: Number of the lane.
        first: The pass in which the lane begins.
        has_item: The lane had items of this pass before its state was saved.
        is_same: The lane has the same samples in each pass, as in validation, and not other ones by a shuffle.
        joins: The lanes of the worker finish each pass together, so that others may take all items of this one.
        parts: Number of parts of a pass, of which the worker has one.

    Attributes:
        count: Number of the empty passes; those of all lanes of the worker if they finish passes together.
        last_kept: The last pass of which the lane had an item; the pass before its first one if there is none.
    """

    __slots__ = ("_dropped", "_failures", "_first", "_is_same", "_joins", "_lane", "_parts", "count", "last_kept")

    def __init__(
        self,
        failures: FailurePolicy,
        *,
        lane: int,
        first: int = 0,
        has_item: bool = False,
        is_same: bool = False,
        joins: bool = False,
        parts: int = 1,
    ) -> None:
        self._failures = failures
        self._lane = lane
        self._first = first
        self._is_same = is_same
        self._joins = joins
        self._parts = parts
        self._dropped = 0  # samples that were dropped before the first of these passes
        self.count = 0
        self.last_kept = first if has_item else first - 1

    def note_item(self, number: int) -> None:
        """Note that pass ``number`` has an item."""
        self.count, self.last_kept = 0, number

    def note_end(self, number: int) -> None:
        """Note that pass ``number`` has ended."""
        if self.last_kept < number:
            self.count += 1
        else:
            self._dropped = self._failures.dropped.total()

    def join(self, number: int, others: Iterable[int]) -> None:
        """Count the passes up to ``number`` that were empty in all lanes of the worker.

        Args:
            number: A pass that has ended.
            others: ``last_kept`` of the other lanes.
        """
        self.count = number - max([self.last_kept, *others])

    @property
    def are_final(self) -> bool:
        """True after so many empty passes that the lane will not have another item."""
        failures = self._failures
        if self._is_same:
            # Before a restore, other lanes may have taken all items of this one in the pass in which it begins.
            return self.count >= (_MAX_EMPTY if failures.dropped or failures.remainder else 1 + self._joins)
        # All samples were dropped as often as a pass has them on average.
        if 0 < _MAX_EMPTY * failures.samples <= failures.dropped.total() - self._dropped and self.count >= _MAX_EMPTY:
            return True
        return self.count >= _MAX_EMPTY * self._parts

    def check_dropped(self) -> None:
        """Check that the lane ends because it has no samples, and not because all of them are dropped.

        Raises:
            RepeatedSampleError: All samples of many passes were dropped, and not only those that the lane always has.
        """
        failures = self._failures
        reasons = failures.remainder or failures.reasons()
        if failures.skip_tolerance is None or not reasons:
            return
        if self._is_same and self.last_kept < self._first:
            _log.warning("lane %d has no sample of a pass that is repeated: %s", self._lane, reasons)
            return
        raise RepeatedSampleError(
            f"a repeated dataset has no item in lane {self._lane} after {self.count} pass"
            f"{'es' if self.count > 1 else ''}: {reasons}",
            hint="check these hooks and filters, and pass a batch_size that a pass can fill, or drop_last=False; to "
            "allow such passes, pass WorkerConfig(skip_tolerance=None)",
        )
