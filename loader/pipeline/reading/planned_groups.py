"""Group the samples of a reader by their costs, before they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...cached_property import cached_property
from ...errors import ConfigError, plural
from ...order import LaneOrder, PlannedLane, WindowPlan
from .costs import SampleCosts
from .source import Source


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedGroups:
    """The groups of a reader's samples: micro-batches or packs of near-equal cost.

    Attributes:
        sources: The sources of the reader.
        formulas: For each cost, a column or a formula over columns, by the name of the cost.
        window: How the samples of a window are grouped.
        allow_new_costs: A state of other costs continues from the next windows; otherwise, it is refused.
    """

    sources: Sequence[Source]
    formulas: Mapping[str, str]
    window: WindowPlan
    allow_new_costs: bool = False

    @cached_property
    def costs(self) -> SampleCosts:
        return SampleCosts(self.sources, self.formulas)

    def lane(self, inner: LaneOrder, window: WindowPlan, seed: int) -> PlannedLane:
        return PlannedLane(inner, window, self.costs.of, seed, names=self.costs.names)

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
        limits = ", ".join(f"{name} {limit:g}" for name, limit in zip(self.formulas, capacity, strict=True))
        if 2 * above > samples:
            raise ConfigError(
                f"{above:,} of {plural(samples, 'sample')} above the capacity of a pack, {limits}",
                hint="raise the capacity, or check that the column counts what the capacity does",
            )
        if self.window.oversized == "error":
            shown = ", ".join(f"{name} {value:g}" for name, value in zip(self.formulas, cost, strict=True))
            raise ConfigError(
                f"{above:,} of {plural(samples, 'sample')} above the capacity of a pack, {limits}: {key!r} has {shown}",
                hint='raise the capacity, or pass oversized="skip", "alone" (a pack that exceeds it) or "hook" '
                "(pack_selected_samples gets it alone)",
            )
