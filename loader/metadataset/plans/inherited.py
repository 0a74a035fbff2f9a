"""Settings that a place in a tree of metadatasets inherits from the levels above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from sys import float_info

from ...format.documents.load_request import LoadRequest
from ...format.documents.subset import SubsetRange
from ..documents.leaf_plan import BlendStep, JoinPlan, LeafPlan
from ..documents.spec import BlendSpec, JoinSpec, ReferenceSpec
from ..documents.weight_schedule import EntrySchedule
from .scheduled_shares import normalised, scheduled_shares


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

    @property
    def split_part(self) -> str:
        """The split part of references that name none."""
        return self.request.split_part

    def within(self, spec: ReferenceSpec | JoinSpec) -> InheritedSettings:
        """Add the settings of a reference or join."""
        outer = self.request
        request = replace(
            outer,
            split_part=spec.split_part or outer.split_part,
            subflavors={**spec.subflavors, **outer.subflavors},
            epochs_together=combine_epochs_together(spec.epochs_together, outer.epochs_together),
            subset=_ranges(spec) + outer.subset,
        )
        return replace(self, request=request)

    def shares(self, blend: BlendSpec, *, training: bool) -> Sequence[InheritedSettings]:
        """Return the settings for each entry of a blend; weights and repetitions are ignored unless ``training``.

        Raises:
            ConfigError: Weights change that cannot be combined.
        """
        inner = replace(
            self,
            request=replace(
                self.request,
                epochs_together=combine_epochs_together(blend.epochs_together, self.request.epochs_together),
                subset=_ranges(blend) + self.request.subset,
            ),
        )
        amounts = [entry.amount for entry in blend.entries]
        if not training:
            return [inner] * len(amounts)
        if blend.kind == "blend_epochized":
            outer = 1.0 if self.repetitions is None else self.repetitions
            return [replace(inner, repetitions=outer * amount) for amount in amounts]
        steps = [
            BlendStep(entry=number, amount=entry.amount, unit=blend.unit, schedule=entry.schedule)
            for number, entry in enumerate(blend.entries)
        ]
        schedules = scheduled_shares(blend, self.schedule, self.weight)
        if schedules is not None:
            return [
                replace(inner, weight=own.weights[0], blends=(*self.blends, step), schedule=own)
                for own, step in zip(schedules, steps, strict=True)
            ]
        outer = 1.0 if self.weight is None else self.weight
        return [
            replace(inner, weight=max(outer * share, float_info.min), blends=(*self.blends, step))  # 0 drops the entry
            for share, step in zip(normalised(amounts), steps, strict=True)
        ]

    def request_for(
        self,
        path: str,
        reference: ReferenceSpec,
        aux: Mapping[str, str],
        aux_meta_folders: Mapping[str, str],
        *,
        meta_folder: str | None,
    ) -> LoadRequest:
        """Return the request for a dataset, after :meth:`within` has added its settings.

        Args:
            path: Absolute path of the dataset.
            reference: The reference.
            aux: Auxiliary stores, with absolute paths.
            aux_meta_folders: Absolute paths of their meta folders.
            meta_folder: Absolute path of the folder to use instead of ``.nv-meta``.
        """
        return replace(
            self.request,
            path=path,
            split_config=self.request.split_config or reference.split_config,
            dataset_config=self.request.dataset_config or reference.dataset_config,
            meta_folder=meta_folder,
            filter=self.request.filter or reference.filter,
            aux=aux,
            aux_meta_folders=aux_meta_folders,
        )

    def leaf(self, request: LoadRequest, *, place: str, join: JoinPlan | None = None) -> LeafPlan:
        """Return the plan of a leaf."""
        return LeafPlan(
            request=request,
            place=place,
            weight=self.weight,
            repetitions=self.repetitions,
            join=join,
            blends=self.blends,
            schedule=self.schedule,
        )


def _ranges(spec: ReferenceSpec | JoinSpec | BlendSpec) -> tuple[SubsetRange, ...]:
    return () if spec.subset is None else (spec.subset,)


def combine_epochs_together(one: int | None, other: int | None) -> int | None:
    """Combine ``shuffle_over_epochs_multiplier`` of two levels: None wins, then -1, otherwise they multiply.

    >>> combine_epochs_together(2, 3), combine_epochs_together(-1, 3), combine_epochs_together(-1, None)
    (6, -1, None)
    """
    if one is None or other is None:
        return None
    return -1 if -1 in (one, other) else one * other
