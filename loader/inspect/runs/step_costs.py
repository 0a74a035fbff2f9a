"""Costs of the steps of a planned run on its ranks, computed from the order and the columns before the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...engine.run import Engine
from ...engine.workers import usable_cores
from ...errors import ConfigError, plural
from ...order import PlannedLane, WindowPlan
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.reading.read import ReadDataset
from ...pipeline.stages.batch import groups_of_batch, planning_reader

_Floats = npt.NDArray[np.float64]
_Groups = tuple[IntArray, IntArray]  # the places of the samples in the stream before, and the samples of each group
MAX_SAMPLES = 120_000_000
"""Samples whose plan is computed, in about a minute; windows of a longer run are sampled."""
_SAMPLES_OF_PROCESS = 4_000_000  # planned in a few seconds: fewer do not pay for the start of another process
_SAMPLES_AT_ONCE = 1 << 20  # of windows whose costs and groups a process keeps: some tens of megabytes
_FULL = 1 + 1e-9  # of a capacity: sums of floats differ by less from the sum that they stand for
_STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # standard errors, of 2 to 10 observations
_TINY = 1e-300  # a mean of costs that are all 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRatios:
    """Steps with a plan or without, and their imbalance: the largest cost of a micro-batch / the mean over the ranks.

    Attributes:
        mean: Mean over the steps: the time of a run, relative to one of equal work.
        interval: Half the width of the 95 % confidence interval of the mean; 0 if all steps were computed.
        p99: 99th percentile over the steps.
        worst: The largest one.
        fill: Share of the capacity that packs fill; None without a capacity.
        padding: Share of padding if the samples of a micro-batch are padded to its longest; None for packs.
    """

    mean: float
    interval: float
    p99: float
    worst: float
    fill: float | None
    padding: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFacts:
    """One cost of a planned run.

    Attributes:
        name: Its name.
        micro_batch: Mean cost of a micro-batch.
        planned: The steps as they are planned.
        unplanned: The same steps without a plan: samples in the order of the shuffle.
        bound: Mean lower bound of the ratio of a step: its largest sample, divided by the mean micro-batch, at least 1.
        heavy: Share of the samples that cost more than a mean micro-batch, which no plan can level.
    """

    name: str
    micro_batch: float
    planned: StepRatios
    unplanned: StepRatios
    bound: float
    heavy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCostFacts:
    """The costs of the steps of a planned run on a number of ranks.

    Attributes:
        window: Samples of a window.
        steps: Steps that were computed.
        samples: Samples of these steps.
        micro_batch_samples: Mean number of samples of a micro-batch.
        is_sampled: Windows of the run were sampled; otherwise the numbers are exact.
    """

    ranks: int
    lanes: int
    window: int
    steps: int
    samples: int
    micro_batch_samples: float
    is_sampled: bool
    costs: tuple[CostFacts, ...]


def step_costs(
    chain: SavableDataset[Any],
    *,
    ranks: int,
    lanes: int,
    seed: int,
    steps: int | None = None,
    max_samples: int = MAX_SAMPLES,
) -> StepCostFacts:
    """Compute the costs of the steps of a planned run.

    Args:
        chain: The stages of the run, which plan groups.
        ranks: R.
        lanes: L, a multiple of R.
        seed: Seed of the run.
        steps: Steps of the run; None for one epoch.
        max_samples: Samples whose plan is computed; windows are sampled if the run has more.

    Raises:
        ConfigError: The reader plans no groups.
    """
    (reader, groups), packs = planning_reader(chain), groups_of_batch(chain)
    every, turns = range(len(reader.sources)), lanes // ranks
    plan = groups.window_of(every, lanes)
    # A piece is a window of the lanes that make the same steps: one lane of each rank.
    epoch = sum(source.samples for source in reader.sources)
    size = plan.samples if reader.plan.repeats else min(plan.samples, -(-epoch // lanes))
    wanted = epoch if steps is None else math.ceil(steps * ranks * packs * groups.samples_of_group(every))
    windows = max(1, round(wanted / (lanes * size)))
    pieces = [(window, turn) for window in range(windows) for turn in range(turns)]
    most = max(1, max_samples // (ranks * size))
    is_sampled = len(pieces) > most
    if is_sampled:
        chosen = np.random.default_rng(seed).choice(len(pieces), most, replace=False)
        pieces = [pieces[row] for row in sorted(chosen.tolist())]
    # Plan them, and compare the ranks of each step.
    planner = _Planner(reader=reader, ranks=ranks, lanes=lanes, seed=seed, packs=packs)
    measured = [piece for piece in planner.measured(pieces, size) if piece[0].steps.size]
    if not measured:
        raise ConfigError(
            f"the run has no step in which each of {plural(ranks, 'rank')} has a micro-batch",
            hint="plan fewer ranks, or more samples",
        )
    samples = sum(planned.samples for planned, _ in measured)
    return StepCostFacts(
        ranks=ranks,
        lanes=lanes,
        window=plan.samples,
        steps=sum(planned.steps.shape[1] for planned, _ in measured),
        samples=samples,
        micro_batch_samples=samples * packs / sum(planned.groups for planned, _ in measured),
        is_sampled=is_sampled,
        costs=tuple(
            _facts(name, column, measured, plan, is_sampled=is_sampled) for column, name in enumerate(groups.formulas)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """The micro-batches of a window of one lane of each rank.

    Attributes:
        steps: Cost of each micro-batch of the steps that all ranks make, with its padding if it is padded, shape
            (ranks, steps, k).
        largest: Largest cost of a sample in each step, shape (steps, k).
        sums: Sum of the costs of all samples, shape (k,).
        padded: The sum if each sample cost as much as the largest of its group, shape (k,).
        heavy: Samples that cost more than a mean micro-batch of their part of the ranks, shape (k,).
        groups: Number of groups.
    """

    steps: _Floats
    largest: _Floats
    sums: _Floats
    padded: _Floats
    heavy: IntArray
    samples: int
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    """Plans windows of a run, in several processes."""

    reader: ReadDataset
    ranks: int
    lanes: int
    seed: int
    packs: int

    def measured(self, pieces: Sequence[tuple[int, int]], size: int) -> list[tuple[_Measured, _Measured]]:
        """Return what each piece costs as it is planned, and in the order of the shuffle.

        Args:
            pieces: Windows, and the turns of the ranks whose lanes they are of.
            size: Samples of a window.
        """
        together = max(1, _SAMPLES_AT_ONCE // size)
        parts = [range(first, min(first + together, self.ranks)) for first in range(0, self.ranks, together)]
        items = [(window, turn, part) for window, turn in pieces for part in parts]
        wanted = len(pieces) * self.ranks * size // _SAMPLES_OF_PROCESS
        engine = Engine(workers=max(1, min(usable_cores(), wanted)))
        with closing(engine.run(self.measure, items)) as results:
            by_item = dict(results)
        rows = [[by_item[first + part] for part in range(len(parts))] for first in range(0, len(items), len(parts))]
        return [(_joined([planned for planned, _ in row]), _joined([other for _, other in row])) for row in rows]

    def measure(self, item: tuple[int, int, range]) -> tuple[_Measured, _Measured]:
        """Return the costs of a window of the lanes of some ranks."""
        window, turn, chosen = item
        costs, planned, unplanned = list[_Floats](), list[_Groups](), list[_Groups]()
        for rank in chosen:
            order = self.reader.lane_order(turn * self.ranks + rank, lanes=self.lanes, seed=self.seed)
            lane = cast("PlannedLane", order)
            if lane.length is not None and window * lane.plan.samples >= lane.length:
                continue
            of_lane = lane.before(window)[1]
            # Samples that the run leaves out make no steps, with a plan or without.
            kept = ~lane.is_left_out(of_lane)
            if not kept.any():
                continue
            groups = [group for group in lane.groups(window, of_lane) if kept[group[0]]]
            costs.append(of_lane[kept])
            planned.append(((np.cumsum(kept) - 1)[np.concatenate(groups)], np.array([*map(len, groups)])))
            unplanned.append((np.arange(len(costs[-1])), _counts_in_turn(lane.plan, costs[-1])))
        every, padded = len(costs) == len(chosen), self.reader.groups is not None and self.reader.groups.window.padded
        return (
            _measured(costs, planned, self.packs, every=every, padded=padded),
            _measured(costs, unplanned, self.packs, every=every, padded=padded),
        )


def _measured(
    costs: Sequence[_Floats], groups: Sequence[_Groups], packs: int, *, every: bool, padded: bool
) -> _Measured:
    kinds = costs[0].shape[1] if costs else 1
    sums, largest, padded_sum = [], [], np.zeros(kinds)
    for of_lane, (places, counts) in zip(costs, groups, strict=True):
        # Reduce each group, then join the groups of each micro-batch; an incomplete last one is left out.
        ordered, starts = of_lane[places], np.cumsum(counts) - counts
        group_sums, group_largest = np.add.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts)
        group_padded = group_largest * counts[:, None]
        padded_sum += group_padded.sum(axis=0)
        if padded:
            group_sums = group_padded
        whole = len(counts) // packs
        sums.append(group_sums[: whole * packs].reshape(whole, packs, kinds).sum(axis=1))
        largest.append(group_largest[: whole * packs].reshape(whole, packs, kinds).max(axis=1))
    # Compare the steps that all ranks make.
    shortest = min(map(len, sums), default=0) if every else 0
    steps = np.stack([row[:shortest] for row in sums]) if sums else np.zeros((0, 0, kinds))
    mean = steps.mean(axis=(0, 1)) if steps.size else np.full(kinds, np.inf)
    return _Measured(
        steps=steps,
        largest=np.max([row[:shortest] for row in largest], axis=0) if steps.size else np.zeros((0, kinds)),
        sums=np.sum([of_lane.sum(axis=0) for of_lane in costs], axis=0),
        padded=padded_sum,
        heavy=np.sum([(of_lane > mean).sum(axis=0) for of_lane in costs], axis=0),
        samples=sum(map(len, costs)),
        groups=sum(len(counts) for _, counts in groups),
    )


def _joined(parts: Sequence[_Measured]) -> _Measured:
    """Return what the lanes of several parts of the ranks cost together."""
    shortest = min(part.steps.shape[1] for part in parts)
    added = ("sums", "padded", "heavy", "samples", "groups")
    return _Measured(
        steps=np.concatenate([part.steps[:, :shortest] for part in parts]),
        largest=np.max([part.largest[:shortest] for part in parts], axis=0),
        **{name: sum(getattr(part, name) for part in parts) for name in added},
    )


def _counts_in_turn(plan: WindowPlan, costs: _Floats) -> IntArray:
    """Return the numbers of samples of groups that follow one another: equal ones, or as many as a pack holds."""
    if plan.capacity is None:
        ends = np.arange(plan.group_samples or 1, len(costs) + (plan.group_samples or 1), plan.group_samples or 1)
        return np.diff(np.minimum(ends, len(costs)), prepend=0)
    full = np.cumsum(costs / np.array(plan.capacity), axis=0)
    cuts, start = list[int](), 0
    while start < len(costs):
        before = full[start - 1] if start else np.zeros(costs.shape[1])
        # Sums rise, so that the first sample without room is found by a search in each cost.
        stops = [
            np.searchsorted(column, limit, side="right") for column, limit in zip(full.T, before + _FULL, strict=True)
        ]
        start = max(start + 1, int(min(stops)))
        cuts.append(start)
    return np.diff(cuts, prepend=0)


def _ratios(pieces: Sequence[_Measured], column: int, capacity: float | None, *, is_sampled: bool) -> StepRatios:
    """Compare the ranks of each step.

    Args:
        column: The cost.
        capacity: What packs can hold of it; None for micro-batches that are padded.
    """
    costs = [piece.steps[:, :, column] for piece in pieces]
    by_piece = [steps.max(axis=0) / np.maximum(steps.mean(axis=0), _TINY) for steps in costs]
    ratios = np.concatenate(by_piece)
    # The steps of a window depend on each other, so that a window is one observation if there are several.
    observed = [float(some.mean()) for some in by_piece] if len(by_piece) > 1 else ratios
    error = float(np.std(observed, ddof=1)) / math.sqrt(len(observed)) if len(observed) > 1 else 0.0
    total = sum(float(piece.sums[column]) for piece in pieces)
    padded = sum(float(piece.padded[column]) for piece in pieces)
    return StepRatios(
        mean=float(ratios.mean()),
        interval=_STUDENT_95[min(len(observed), 10) - 2] * error if is_sampled and len(observed) > 1 else 0.0,
        p99=float(np.quantile(ratios, 0.99)),
        worst=float(ratios.max()),
        fill=None if capacity is None else total / (capacity * sum(piece.groups for piece in pieces)),
        padding=1 - total / max(padded, _TINY) if capacity is None else None,
    )


def _facts(
    name: str, column: int, pieces: Sequence[tuple[_Measured, _Measured]], plan: WindowPlan, *, is_sampled: bool
) -> CostFacts:
    # Compare the largest sample of each step with its mean micro-batch.
    planned, unplanned = zip(*pieces, strict=True)
    step_means = np.concatenate([piece.steps[:, :, column].mean(axis=0) for piece in planned])
    bound = np.concatenate([piece.largest[:, column] for piece in planned]) / np.maximum(step_means, _TINY)
    capacity = None if plan.capacity is None or plan.padded else plan.capacity[column]
    return CostFacts(
        name=name,
        micro_batch=float(np.mean([piece.steps[:, :, column].mean() for piece in planned])),
        planned=_ratios(planned, column, capacity, is_sampled=is_sampled),
        unplanned=_ratios(unplanned, column, capacity, is_sampled=is_sampled),
        bound=float(np.maximum(bound, 1).mean()),
        heavy=sum(int(piece.heavy[column]) for piece in planned) / sum(piece.samples for piece in planned),
    )
