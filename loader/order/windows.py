"""Group the samples of a lane by their costs: in windows, so that each group of a window costs nearly the same.

A window is the next W samples of one lane. Its groups, micro-batches or packs, are a function of the costs, the
settings, the seed and the window's number. So the position in the lane is all that a state has to hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..packing import balanced, packed
from .permutation import mix
from .stream_order import LaneOrder, Located, check_range

_GROUPS = 22  # purpose of the random numbers: part of their seed
_KEPT_WINDOWS: Final = 2  # a chunk of samples may end in the next window
_GROUPS_OF_WINDOW: Final = 100  # at least: the last pack of a window is part-empty
_MAX_WINDOW: Final = 1 << 18  # of windows that grow: a lane keeps two of them, of 32 bytes a sample
_LOCATED_TOGETHER: Final = 2048  # samples of small windows: to locate 200 takes nearly as long, and memory is small

Costs = npt.NDArray[np.float64]
CostsOf = Callable[[IntArray, IntArray], Costs]
"""Returns the costs of samples by their sources and numbers, shape (n, costs)."""

Oversized = Literal["error", "skip", "alone", "hook"]

DEFAULT_WINDOW: Final = 16_384
"""Samples of a window. Micro-batches of 16 samples with log-normal lengths then cost within 3 % of their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """The rule by which the samples of a window are grouped.

    Attributes:
        samples: Samples of a window, W.
        grows: W doubles until a window has 100 groups.
        group_samples: Samples of a group; None for packs, whose samples vary.
        packer: Name of the packer.
        capacity: The largest sum of each cost in a pack; None for groups of equal numbers of samples.
        padded: Micro-batches are padded to their longest sample: samples of like cost come together, a capacity
            limits the largest cost times the number of samples, and the lanes have groups of like cost in each step.
        oversized: What becomes of a sample that costs more than the capacity: it is an error before the run begins
            (``"error"``), is left out (``"skip"``), or makes a pack alone (``"alone"``, ``"hook"``).
    """

    samples: int = DEFAULT_WINDOW
    grows: bool = False
    group_samples: int | None = None
    packer: str = "best_fit"
    capacity: tuple[float, ...] | None = None
    padded: bool = False
    oversized: Oversized = "error"

    def grown(self, samples_of_group: float) -> WindowPlan:
        """Return the plan with windows that have enough groups.

        Args:
            samples_of_group: Mean number of samples of a group.
        """
        samples = self.samples
        while self.grows and samples < min(_GROUPS_OF_WINDOW * samples_of_group, _MAX_WINDOW):
            samples *= 2
        return replace(self, samples=samples)

    def within_epochs(self, samples: int, lanes: int) -> WindowPlan:
        """Return the plan with whole groups in windows that a lane's share of an epoch holds.

        So no sample comes much earlier.

        Args:
            samples: Samples of an epoch.
            lanes: Number of lanes of the run.
        """
        most, size = min(self.samples, -(-samples // lanes)), self.group_samples or 1
        return replace(self, samples=max(1, most // size) * size)

    def settings(self) -> dict[str, Any]:
        limits = {} if self.capacity is None else {"capacity": [*self.capacity], "oversized": self.oversized}
        rule = {"padded": True} if self.padded else {"packer": self.packer} if limits else {}
        return {"window": None if self.grows else self.samples, **rule, **limits}

    def groups(self, costs: Costs, *, key: int) -> list[IntArray]:
        """Return the groups of the samples of a window, as their places in the window, in the order of the run.

        Args:
            costs: Shape (n, k); n is W but for the last window of a pass.
            key: The number from which the order of the groups is drawn; lanes share it.
        """
        groups = self._of_equal_counts(costs) if self.capacity is None else self._packs(costs, self.capacity)
        # Sort the groups by their largest sample, and draw the order: so the largest samples of all lanes come in the
        # same steps. A last group of fewer samples stays the last.
        short = self.group_samples is not None and len(costs) % self.group_samples > 0
        whole = groups[:-1] if short else groups
        if not whole:
            return groups
        means = np.maximum(costs.mean(axis=0), np.finfo(np.float64).tiny)
        counts = np.array([*map(len, whole)])
        largest = np.maximum.reduceat((costs / means).max(axis=1)[np.concatenate(whole)], np.cumsum(counts) - counts)
        turn = np.argsort(mix(key, np.arange(len(whole))), kind="stable")
        order = np.argsort(-largest, kind="stable")[turn]
        return [whole[index] for index in order.tolist()] + groups[len(whole) :]

    def _of_equal_counts(self, costs: Costs) -> list[IntArray]:
        size = self.group_samples or 1
        count = len(costs) // size
        if self.padded:
            return np.split(_largest_first(costs), range(size, len(costs), size)) if len(costs) else []
        groups = balanced(costs[: count * size], count, equal_counts=True) if count else []
        return groups if count * size == len(costs) else [*groups, np.arange(count * size, len(costs))]

    def _packs(self, costs: Costs, capacity: tuple[float, ...]) -> list[IntArray]:
        above = (costs > np.array(capacity)).any(axis=1)
        fitting, large = np.flatnonzero(~above), np.flatnonzero(above)
        if self.padded:
            packs = _of_like_cost(costs[fitting], capacity)
        else:
            packs = packed(self.packer, costs[fitting], capacity) if len(fitting) else []
        return [fitting[pack] for pack in packs] + [large[row : row + 1] for row in range(len(large))]


def _largest_first(costs: Costs) -> IntArray:
    return np.argsort(-costs[:, 0], kind="stable")


def _of_like_cost(costs: Costs, capacity: tuple[float, ...]) -> list[IntArray]:
    """Return groups of samples of like cost, whose largest costs times their numbers of samples fit the capacity."""
    order = _largest_first(costs)
    first = costs[order, 0].tolist()
    groups, start = list[IntArray](), 0
    while start < len(order):
        # As many samples as the largest one permits; of other costs, the largest of those samples counts.
        left = len(order) - start
        size = max(1, min(left, int(capacity[0] / first[start]))) if first[start] else left
        for column, limit in enumerate(capacity[1:], 1):
            largest = np.maximum.accumulate(costs[order[start : start + size], column])
            fits = largest * np.arange(1, len(largest) + 1) <= limit
            size = max(1, size if fits.all() else int(fits.argmin()))
        groups.append(order[start : start + size])
        start += size
    return groups


class PlannedLane:
    """The stream of a lane whose windows are grouped.

    Attributes:
        plan: How windows are grouped.
        length: Number of samples of the lane in the pass; None for an endless order.
        names: Names of the costs.

    Args:
        inner: The stream before.
        plan: How windows are grouped.
        costs_of: The costs of samples.
        seed: Seed of the run.
    """

    def __init__(
        self, inner: LaneOrder, plan: WindowPlan, costs_of: CostsOf, seed: int, *, names: tuple[str, ...] = ()
    ) -> None:
        self.plan = plan
        self.names = names
        self._inner = inner
        self._costs_of = costs_of
        self._seed = seed
        self.length = inner.length
        self._windows: dict[int, tuple[Located, IntArray, Costs]] = {}
        self._counts: dict[tuple[int, int], int] = {}  # groups that begin in a window before one of its places
        self._together: tuple[int, Located, Costs] | None = None  # the first of the windows that are located together

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self.length)
        size = self.plan.samples
        nothing = np.empty(0, np.int64)
        pieces: list[Located] = [(nothing, nothing, nothing)]
        for index in range(start // size, -(-stop // size)):
            (source, epoch, sample), _, _ = self.window(index)
            rows = slice(max(0, start - index * size), stop - index * size)
            pieces.append((source[rows], epoch[rows], sample[rows]))
        source, epoch, sample = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        return source, epoch, sample

    def group_at(self, position: int) -> tuple[int, bool]:
        """Return the number of samples from a position to the end of its group, and whether the group is left out.

        Raises:
            StopIteration: The pass has no such position.
        """
        if self.length is not None and position >= self.length:
            raise StopIteration
        index, row = divmod(position, self.plan.samples)
        _, ends, costs = self.window(index)
        size = int(ends[np.searchsorted(ends, row, side="right")]) - row
        return size, bool(self.is_left_out(costs[row : row + 1])[0])

    def costs_at(self, positions: IntArray) -> Costs:
        """Return the costs of the samples at some positions, shape (n, k)."""
        windows, rows = np.divmod(positions, self.plan.samples)
        costs = np.empty((len(positions), len(self.names)))
        for index in np.unique(windows).tolist():
            inside = windows == index
            costs[inside] = self.window(index)[2][rows[inside]]
        return costs

    def group(self, group_number: int, *, position: int = 0) -> range:
        """Return the positions of a group, by its number among the groups that begin at a position or later.

        Groups that are left out have no number.

        Raises:
            StopIteration: The pass has no such group.
        """
        index, group = self.place(group_number, position=position)
        start, stop = self._given(index)[group].tolist()
        return range(index * self.plan.samples + start, index * self.plan.samples + stop)

    def place(self, group_number: int, *, position: int = 0) -> tuple[int, int]:
        """Return the window of a group as :meth:`group` counts it, and its number in the window."""
        size = self.plan.samples
        index, row = divmod(position, size)
        group = group_number + self._count(index, row)
        # Windows of equal groups have equal numbers of them; others are counted one after another.
        if self.plan.group_samples is not None:
            windows, group = divmod(group, size // self.plan.group_samples)
            index += windows
        while group >= (count := self._count(index, size)):
            group, index = group - count, index + 1
        return index, group

    def groups_before(self, position: int) -> int:
        """Return the number of groups that begin before a position and are not left out."""
        if self.plan.group_samples is not None:
            return -(-position // self.plan.group_samples)
        index, row = divmod(position, self.plan.samples)
        return sum(self._count(before, self.plan.samples) for before in range(index)) + self._count(index, row)

    def sums(self, index: int) -> Costs:
        """Return the samples and the costs of each group of a window that is not left out, shape (groups, 1 + k)."""
        costs = self.window(index)[2]
        counted = np.column_stack([np.ones(len(costs)), costs])
        return np.add.reduceat(np.vstack([counted, np.zeros_like(counted[:1])]), self._given(index).ravel())[::2]

    def forget(self) -> None:
        """Drop the windows that are kept, but not the numbers of their groups."""
        self._windows.clear()
        self._together = None

    def _count(self, index: int, row: int) -> int:
        """Return the number of groups of a window that begin before one of its places, and are not left out."""
        if row and (index, row) not in self._counts:
            if self.length is not None and index * self.plan.samples >= self.length:
                raise StopIteration
            self._counts[index, row] = int((self._given(index)[:, 0] < row).sum())
        return self._counts[index, row] if row else 0

    def _given(self, index: int) -> IntArray:
        """Return the first place and the end of each group of a window that is not left out, shape (groups, 2)."""
        _, ends, costs = self.window(index)
        starts = ends - np.diff(ends, prepend=0)
        kept = ~self.is_left_out(costs[starts])
        return np.column_stack([starts[kept], ends[kept]])

    def is_left_out(self, costs: Costs) -> npt.NDArray[np.bool_]:
        """Return whether samples with these costs are left out, shape (n,)."""
        if self.plan.oversized != "skip" or self.plan.capacity is None:
            return np.zeros(len(costs), np.bool_)
        return np.asarray((costs > np.array(self.plan.capacity)).any(axis=1))

    def count_groups(self) -> int | None:
        """Return the number of groups of a pass that are not left out; None for an endless stream.

        All windows of the pass are planned for it.
        """
        return None if self.length is None else self.groups_before(self.length)

    def window(self, index: int) -> tuple[Located, IntArray, Costs]:
        """Return the samples of a window in the order of the run, the ends of its groups, and the costs of samples.

        Returns:
            Sources, epochs and sample numbers, each of shape (n,); the ends of groups, shape (groups,); and costs,
            shape (n, k).
        """
        known = self._windows.get(index)
        if known is not None:
            return known
        (source, epoch, sample), costs = self.before(index)
        groups = self.groups(index, costs)
        # Put the samples into the order of their groups.
        places = np.concatenate(groups) if groups else np.empty(0, np.int64)
        ends = np.cumsum([len(group) for group in groups], dtype=np.int64)
        window = (source[places], epoch[places], sample[places]), ends, costs[places]
        while len(self._windows) >= _KEPT_WINDOWS:
            self._windows.pop(next(iter(self._windows)))
        self._windows[index] = window
        return window

    def before(self, index: int) -> tuple[Located, Costs]:
        """Return the samples of a window in the order of the stream before, and their costs, shape (n, k)."""
        count = max(1, _LOCATED_TOGETHER // self.plan.samples)
        first = index // count * count
        if count == 1:
            return self._located(first, count)
        if self._together is None or self._together[0] != first:
            self._together = first, *self._located(first, count)
        _, (source, epoch, sample), costs = self._together
        start = (index - first) * self.plan.samples
        rows = slice(start, start + self.plan.samples)
        return (source[rows], epoch[rows], sample[rows]), costs[rows]

    def _located(self, window: int, windows: int) -> tuple[Located, Costs]:
        start, stop = window * self.plan.samples, (window + windows) * self.plan.samples
        located = self._inner.locate(start, stop if self.length is None else min(stop, self.length))
        return located, self._costs_of(located[0], located[2])

    def groups(self, index: int, costs: Costs) -> list[IntArray]:
        """Return the groups of a window in the order of the run, as the places of its samples in the stream before."""
        return self.plan.groups(costs, key=int(mix(self._seed, _GROUPS, index)))
