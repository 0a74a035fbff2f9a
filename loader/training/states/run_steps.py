"""The steps of a run: which micro-batches they are, after changes of the number of ranks, and which are skipped."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSteps:
    """The steps of a run, counted from 0: one micro-batch on each rank that the run had then.

    Attributes:
        ranks_at: ``(first micro-batch, ranks)``: from this micro-batch on, the run had so many ranks. The first entry
            is of micro-batch 0.
        skips: ``(start, stop, first, end)``: the steps ``[start, stop)`` are skipped, which are the micro-batches
            ``[first, end)``.
    """

    ranks_at: tuple[tuple[int, int], ...]
    skips: tuple[tuple[int, int, int, int], ...] = ()

    def batches(self, step: int) -> range:
        """Return the micro-batches of a step, by rank.

        >>> RunSteps(ranks_at=((0, 2), (20, 1))).batches(9), RunSteps(ranks_at=((0, 2), (20, 1))).batches(10)
        (range(18, 20), range(20, 21))
        """
        for first_step, first, ranks, end in self._stretches():
            start = first + (step - first_step) * ranks
            if end is None or start < end:
                return range(start, start + ranks if end is None else min(end, start + ranks))
        raise ValueError("a run has ranks")

    def place(self, batch: int) -> tuple[int, int]:
        """Return the step and the rank of a micro-batch.

        >>> RunSteps(ranks_at=((0, 2), (20, 1))).place(19), RunSteps(ranks_at=((0, 2), (20, 1))).place(21)
        ((9, 1), (11, 0))
        """
        for first_step, first, ranks, end in self._stretches():
            if end is None or batch < end:
                step, rank = divmod(batch - first, ranks)
                return first_step + step, rank
        raise ValueError("a run has ranks")

    def _stretches(self) -> Iterator[tuple[int, int, int, int | None]]:
        """Yield the first step, the first micro-batch, the ranks and the end of each stretch with the same ranks."""
        first_step = 0
        ends = [first for first, _ in self.ranks_at[1:]]
        for (first, ranks), end in zip(self.ranks_at, [*ends, None], strict=True):
            yield first_step, first, ranks, end
            first_step += 0 if end is None else -(-(end - first) // ranks)

    def leaving_out(self, steps: Sequence[tuple[int, int]]) -> RunSteps:
        """Return the same steps without some more, ``[start, stop)`` each; those that are skipped already stay so."""
        known = {skip[:2] for skip in self.skips}
        added = [
            (start, stop, self.batches(start).start, self.batches(stop - 1).stop)
            for start, stop in steps
            if (start, stop) not in known
        ]
        return replace(self, skips=(*self.skips, *added))

    def is_left_out(self, batch: int) -> bool:
        return any(first <= batch < end for *_, first, end in self.skips)


def checked_skips(given: Any) -> tuple[tuple[int, int], ...]:
    """Return the argument ``skip_steps`` as pairs of integers."""
    try:
        pairs = tuple((operator.index(start), operator.index(stop)) for start, stop in given)
    except (TypeError, ValueError):
        raise TypeError(
            f"expected pairs (start, stop) of step numbers as skip_steps, such as [(41200, 41205)], found {given!r}"
        ) from None
    for start, stop in pairs:
        if not 0 <= start < stop:
            raise ConfigError(
                f"expected skip_steps with 0 <= start < stop, found ({start}, {stop})",
                hint="the step `stop` itself is not skipped: (41200, 41201) skips step 41200",
            )
    return pairs
