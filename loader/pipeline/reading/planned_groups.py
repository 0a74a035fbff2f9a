"""Group the samples of a reader by their costs, before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ...cached_property import cached_property
from ...errors import ConfigError, plural
from ...order import LaneOrder, PlannedLane, WindowPlan
from .costs import SampleCosts
from .source import Source


def shown_costs(names: Iterable[str], costs: Iterable[float]) -> str:
    """Return costs with their names, for messages."""
    return ", ".join(f"{name} {cost:g}" for name, cost in zip(names, costs, strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedGroups:
    """The groups of a reader's samples: micro-batches or packs of near-equal cost.

    Attributes:
        formulas: For each cost, a column or a formula over columns, by the name of the cost.
        window: How the samples of a window are grouped.
        kind: Groups are micro-batches, packs, or packs of the samples in a buffer, which are measured when they are
            encoded.
        allow_new_costs: A state of other costs continues from the next windows; otherwise, it is refused.
        sources: The sources of the reader.
    """

    formulas: Mapping[str, str]
    window: WindowPlan
    kind: Literal["batches", "packs", "buffer"]
    allow_new_costs: bool = False
    sources: Sequence[Source] = ()

    def of(self, sources: Sequence[Source]) -> PlannedGroups:
        """Return the plan of some sources, after a check of their costs."""
        groups = replace(self, sources=sources)
        groups.check()
        return groups

    @cached_property
    def costs(self) -> SampleCosts:
        return SampleCosts(self.sources, self.formulas)

    def lane(self, inner: LaneOrder, window: WindowPlan, seed: int) -> PlannedLane:
        return PlannedLane(inner, window, self.costs.of, seed, names=self.costs.names)

    def samples_of_group(self, sources: Iterable[int]) -> float:
        """Return the mean number of samples of a group, of some sources by their numbers."""
        if self.window.capacity is None:
            return self.window.group_samples or 1
        rows = [*sources]
        means = [self.costs.summaries[row].means for row in rows]
        mean = np.average(means, axis=0, weights=[len(self.sources[row].selection) for row in rows])
        return float(np.min(np.array(self.window.capacity) / np.maximum(mean, 1e-9)))

    def window_of(self, sources: Sequence[int], lanes: int) -> WindowPlan:
        """Return the rule of windows, of a run that began with some of the sources, by their numbers."""
        epoch = sum(self.sources[row].samples for row in sources)
        return self.window.grown(self.samples_of_group(sources)).within_epochs(epoch, lanes)

    def settings(self) -> dict[str, Any]:
        checksums = [summary.checksum for summary in self.costs.summaries]
        return {"plan": {**self.window.settings(), "costs": dict(self.formulas)}, "cost_checksums": checksums}

    def check(self) -> None:
        """Check the costs against the capacity.

        Raises:
            ConfigError: A sample costs more than the capacity and this is an error, or so do most samples.
        """
        capacity = self.window.capacity
        if capacity is None:
            _ = self.costs.summaries
            return
        largest = np.max([summary.largest for summary in self.costs.summaries], axis=0)
        if (largest <= np.array(capacity)).all():
            return
        above, key, cost = self.costs.above(capacity)
        samples = sum(summary.samples for summary in self.costs.summaries)
        limits = shown_costs(self.formulas, capacity)
        if 2 * above > samples:
            raise ConfigError(
                f"{above:,} of {plural(samples, 'sample')} above the capacity of a pack, {limits}",
                hint="raise the capacity, or check that the column counts what the capacity does",
            )
        if self.window.oversized == "error":
            raise ConfigError(
                f"{above:,} of {plural(samples, 'sample')} above the capacity of a pack, {limits}: {key!r} has "
                f"{shown_costs(self.formulas, cost)}",
                hint='raise the capacity, or pass oversized="skip", "alone" (a pack that exceeds it) or "hook" '
                "(pack_selected_samples gets it alone)",
            )
