"""The settings that the entries of a metadataset inherit, and the shares of its datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from sys import float_info

from ...errors import ConfigError
from ...format.dataset_ref import DatasetRef
from ...format.documents.providers import LoadRequest
from ..documents.leaf_plan import BlendStep, EntrySchedule, JoinPlan, LeafPlan, SourceSpec, combine_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedSettings:
    """Combined settings of the levels above a place, which apply to everything below it.

    Attributes:
        request: The request so far. The caller's ``split_config``, ``dataset_config`` and ``filter`` override the
            document's, and outer ``subflavors`` override inner ones.
        weight: Share of all samples; None if no level has weights.
        repetitions: Repetitions in a pass; None if no level has repetitions.
        files: The enclosing metadatasets, each with its split, from the root.
        blends: The weighted blends, from the outermost.
        schedule: Share of all samples in each stretch of the run; None if it never changes.
    """

    request: LoadRequest
    weight: float | None = None
    repetitions: float | None = None
    files: tuple[tuple[str, str], ...] = ()
    blends: tuple[BlendStep, ...] = ()
    schedule: EntrySchedule | None = None

    def within(self, spec: SourceSpec) -> InheritedSettings:
        outer = self.request
        # Most places set nothing, and share the settings above them.
        if spec.epochs_together == 1 and not (spec.split_part or spec.subflavors or spec.subset):
            return self
        request = replace(
            outer,
            split_part=spec.split_part or outer.split_part,
            subflavors={**spec.subflavors, **outer.subflavors},
            epochs_together=combine_epochs_together(spec.epochs_together, outer.epochs_together),
            subset=outer.subset if spec.subset is None else (spec.subset, *outer.subset),
        )
        return replace(self, request=request)

    def shares(self, blend: SourceSpec, *, training: bool) -> Sequence[InheritedSettings]:
        """Return the settings for each entry of a blend; of weights that change, the first ones unless ``training``."""
        inner = self.within(blend)  # what the blend sets holds for each entry
        # Validation ignores weights, and repetitions multiply.
        amounts = [entry.amount for entry in blend.sources]
        if not training and not any(amounts):  # all begin at 0
            return [inner] * len(amounts)
        if blend.kind == "blend_epochized":
            outer = 1.0 if self.repetitions is None else self.repetitions
            return [replace(inner, repetitions=outer * amount) for amount in amounts]
        # Weights are shares of all samples; of weights that change, in each stretch of the run.
        steps = [
            BlendStep(entry=position, amount=entry.amount, unit=blend.unit, schedule=entry.schedule)
            for position, entry in enumerate(blend.sources)
        ]
        schedules = scheduled_shares(blend, self.schedule, self.weight) if training else None
        if schedules is not None:
            return [
                replace(inner, weight=schedule.weights[0], blends=(*self.blends, step), schedule=schedule)
                for schedule, step in zip(schedules, steps, strict=True)
            ]
        outer = 1.0 if self.weight is None else self.weight
        return [
            replace(inner, weight=max(outer * share, float_info.min), blends=(*self.blends, step))  # 0 drops the entry
            for share, step in zip(normalised(amounts), steps, strict=True)
        ]

    def request_for(self, ref: DatasetRef, reference: SourceSpec, aux: Mapping[str, DatasetRef]) -> LoadRequest:
        """Return the request for a reference, after :meth:`within` has added its settings; paths are absolute."""
        outer = self.request.ref
        # The caller's documents and trust override the reference's.
        if outer.split_config or outer.dataset_config or outer.trust_code != ref.trust_code:
            ref = replace(
                ref,
                split_config=outer.split_config or ref.split_config,
                dataset_config=outer.dataset_config or ref.dataset_config,
                trust_code=outer.trust_code,
            )
        return replace(
            self.request,
            ref=ref,
            filter=self.request.filter or reference.filter,
            aux=aux,
        )

    def leaf(self, request: LoadRequest, *, place: str, join: JoinPlan | None = None) -> LeafPlan:
        return LeafPlan(
            request=request,
            place=place,
            weight=self.weight,
            repetitions=self.repetitions,
            join=join,
            blends=self.blends,
            schedule=self.schedule,
        )


def combine_epochs_together(inner: int | None, other: int | None) -> int | None:
    """Combine ``shuffle_over_epochs_multiplier`` of two levels: None wins, then -1, otherwise they multiply.

    >>> combine_epochs_together(2, 3), combine_epochs_together(-1, 3), combine_epochs_together(-1, None)
    (6, -1, None)
    """
    if inner is None or other is None:
        return None
    return -1 if -1 in (inner, other) else inner * other


def scheduled_shares(
    blend: SourceSpec, outer: EntrySchedule | None, weight: float | None
) -> list[EntrySchedule] | None:
    """Return the shares of all samples for each entry of a blend; None if no weight changes.

    Args:
        outer: The share of the blend in each stretch; None if it never changes.
        weight: The share of the blend if it never changes; None: all samples.
    """
    # Find the stretches in which all weights are constant.
    known = [entry.schedule for entry in blend.sources if entry.schedule is not None]
    known += [] if outer is None else [outer]
    if not known:
        return None
    unit, starts = known[0].unit, combine_starts(known)
    # List the share of the blend and the weights of its entries in each stretch.
    outer_shares = (1.0 if weight is None else weight,) * len(starts) if outer is None else outer.on(starts)
    columns = [
        (entry.amount,) * len(starts) if entry.schedule is None else entry.schedule.on(starts)
        for entry in blend.sources
    ]
    # Divide the share in each stretch.
    rows = []
    for start, share, weights in zip(starts, outer_shares, zip(*columns, strict=True), strict=True):
        if any(weights):
            # Nested shares may underflow to 0, which would drop the entry.
            inner = normalised(weights)
            least = float_info.min if share else 0.0
            rows.append([max(share * fraction, least) if fraction else 0.0 for fraction in inner])
        elif share:
            raise ConfigError(f"from {unit.removesuffix('s')} {start:,} on every weight is 0; expected one above 0")
        else:
            rows.append([0.0] * len(columns))
    return [EntrySchedule(unit=unit, starts=starts, weights=shares) for shares in zip(*rows, strict=True)]


def normalised(weights: Sequence[float]) -> list[float]:
    """Return weights, one of them above 0, in proportion with the sum 1; an entry above 0 stays above 0."""
    largest = max(weights)  # dividing by it first keeps the sum of large weights finite
    total = fsum(weight / largest for weight in weights)
    return [max(weight / largest / total, float_info.min) if weight else 0.0 for weight in weights]
