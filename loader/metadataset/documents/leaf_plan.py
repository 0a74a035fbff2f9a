"""The contents of a metadataset file, and plans of leaves and joins, as plain data.

A spec holds what one file says, with types checked and paths as written. A plan combines the settings of all levels.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import ConfigError, plural
from ...format.dataset_ref import DatasetRef
from ...format.documents.providers import LoadRequest
from ...format.documents.subset import SubsetRange

ScheduleUnit = Literal["steps", "samples"]
"""What a schedule counts: micro-batches of a rank, or samples of the whole run, from its beginning."""

MAX_STRETCHES = 1000
"""Limit of the stretches of a mix, in each of which its weights are constant."""
RAMP_STRETCHES = 32
"""Number of equal stretches into which a linear change from one weight to the next is cut."""

_MAX_SHOWN = 6  # changes of a weight


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySchedule:
    """The weights of one place of a mix, or its shares of the samples.

    Attributes:
        unit: What ``starts`` counts.
        starts: The start of each stretch: 0 first, ascending.
        weights: The weight in each stretch: at least 0.
    """

    unit: ScheduleUnit
    starts: tuple[int, ...]
    weights: tuple[float, ...]

    def at(self, start: int) -> float:
        """Return the weight at a step or sample."""
        return self.weights[bisect_right(self.starts, start) - 1]

    def on(self, starts: tuple[int, ...]) -> tuple[float, ...]:
        """Return the weights in stretches that cut these.

        >>> EntrySchedule(unit="steps", starts=(0, 10), weights=(1.0, 0.5)).on((0, 4, 10, 20))
        (1.0, 1.0, 0.5, 0.5)
        """
        weights: list[float] = []
        row = 0
        # Both lists ascend, so one pass finds the row of each start.
        for start in starts:
            while row + 1 < len(self.starts) and self.starts[row + 1] <= start:
                row += 1
            weights.append(self.weights[row])
        return tuple(weights)

    def __str__(self) -> str:
        return schedule_text(self.unit, self.starts, self.weights)


def schedule_text(unit: str, starts: Sequence[int], weights: Sequence[float]) -> str:
    """Describe weights and the starts at which they change.

    >>> schedule_text("steps", [0, 10, 10000], [0.5, 0.5, 0.2])
    '0.5, 0.2 from step 10,000'
    """
    changes = [
        f"{weight:.3g} from {unit.removesuffix('s')} {start:,}"
        for before, weight, start in zip(weights, weights[1:], starts[1:], strict=False)
        if weight != before
    ]
    # A linear change alone has more changes than a line shows.
    if len(changes) > _MAX_SHOWN:
        changes = [*changes[: _MAX_SHOWN // 2], "…", *changes[-1:]]
    return ", ".join([f"{weights[0]:.3g}", *changes])


def combine_starts(schedules: list[EntrySchedule]) -> tuple[int, ...]:
    """Return the starts of the stretches in which the weights of some schedules are constant.

    Raises:
        ConfigError: They have different units, or there are more than ``MAX_STRETCHES``.
    """
    if len({schedule.unit for schedule in schedules}) > 1:
        raise ConfigError("some weights change at steps and others at samples; use one unit for a tree of blends")
    # A stretch ends wherever one of the weights changes.
    starts = sorted({start for schedule in schedules for start in schedule.starts})
    if len(starts) > MAX_STRETCHES:
        raise ConfigError(
            f"the weights change {plural(len(starts) - 1, 'time')}; expected at most {MAX_STRETCHES - 1:,} times, "
            f"where a linear change counts {RAMP_STRETCHES} times"
        )
    return tuple(starts)


SourceKind = Literal["dataset", "join", "blend", "blend_epochized"]
"""``dataset`` is also a metadataset. ``blend`` mixes by weights without end, ``blend_epochized`` by repetitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """A dataset, join or blend that a file names, with its settings.

    Attributes:
        place: Its place in the file; of a blend, the place of the list.
        ref: The dataset, with paths as written.
        sources: The members of a join, the primary one first, or the entries of a blend.
        unit: What the weights of a blend are shares of.
        amount: Weight or repetitions of an entry of a blend; of a weight that changes during the run, the first one.
        schedule: The weights of an entry if they change; None if they do not.
        name: Key of a member of a join if the join is a mapping.
    """

    place: str
    kind: SourceKind = "dataset"
    ref: DatasetRef = field(default_factory=lambda: DatasetRef(""))
    split_part: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    filter: str | None = None
    epochs_together: int | None = 1
    subset: SubsetRange | None = None
    aux: Mapping[str, DatasetRef] = field(default_factory=dict)
    sources: tuple[SourceSpec, ...] = ()
    joiner: Joiner | None = None
    unit: str = "samples"
    amount: float = 1.0
    schedule: EntrySchedule | None = None
    name: str | None = None
    nonmatch: Nonmatch = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadatasetSpec:
    """Contents of a metadataset file.

    ``names`` has all splits, invalid ones included; None if the document has no readable splits.
    """

    file: str
    version: int = 2
    names: tuple[str, ...] | None = None
    splits: Mapping[str, SourceSpec] = field(default_factory=dict)


Nonmatch = Literal["error", "skip", "none"]
"""Treatment of a primary sample whose key is missing in a member: raise, skip the sample, or pass None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joiner:
    """Reference to the code that joins the members' samples to one sample; not imported here.

    Attributes:
        module: Name of the module.
        name: Name of a function, or of a class whose ``from_joined`` is called.
        is_function: True if ``name`` is a function.
    """

    module: str
    name: str
    is_function: bool


class _OfRequest:
    __slots__ = ()
    request: LoadRequest

    @property
    def ref(self) -> DatasetRef:
        return self.request.ref

    @property
    def path(self) -> str:
        """Path of the dataset or file of samples, absolute, or a URL; for a join, the metadataset that holds it."""
        return self.request.ref.path

    @property
    def split_part(self) -> str:
        return self.request.split_part

    @property
    def filter(self) -> str | None:
        return self.request.filter


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinMember(_OfRequest):
    """One dataset of a join.

    Attributes:
        request: What to load: the folder of a prepared dataset.
        place: Its place in the metadataset, as in :class:`LeafPlan`.
        name: Its key if the join is a mapping; None in a list.
        nonmatch: What happens if it lacks a key of the primary dataset.
    """

    request: LoadRequest
    place: str
    name: str | None
    nonmatch: Nonmatch = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """Plan of a join: samples of several datasets with the same key become one sample.

    Attributes:
        file: Absolute path of the metadataset that contains the join.
        place: Place of the join in that file.
        members: The datasets. The first is the primary one, which determines order and keys.
        joiner: The code that builds the sample; None if the file names none.
    """

    file: str
    place: str
    members: tuple[JoinMember, ...]
    joiner: Joiner | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendStep:
    """One blend on the way to a leaf.

    Attributes:
        entry: Number of the blend's entry that leads to the leaf.
        amount: The weight of the entry.
        unit: What the weights are shares of: ``"samples"``, or the name of a task encoder's metric.
        schedule: The weights of the entry in the stretches of the run; None if its weight never changes.
    """

    entry: int
    amount: float
    unit: str
    schedule: EntrySchedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafPlan(_OfRequest):
    """One leaf of a tree of metadatasets.

    Attributes:
        request: What to load, with the settings of all levels. For a join, its path is the metadataset file that holds
            the join.
        place: Its place in the document that references it (``splits.train.blend[2]``), prefixed by the file in nested
            metadatasets; empty without a metadataset.
        weight: Its share of all samples; the shares of all leaves sum to 1. None if nothing is weighted.
        repetitions: Repetitions in a pass, the product of all levels; None if nothing is repeated.
        join: The joined datasets, if it is a join.
        blends: The weighted blends that lead to it, from the outermost. ``weight`` is the product of their shares, in
            their units.
        schedule: Its share of all samples in each stretch of the run, if weights of the tree change; ``weight`` is the
            first one, which may be 0. None if its share never changes.
    """

    request: LoadRequest
    place: str = ""
    weight: float | None = None
    repetitions: float | None = None
    join: JoinPlan | None = None
    blends: tuple[BlendStep, ...] = ()
    schedule: EntrySchedule | None = None

    @property
    def datasets(self) -> tuple[LeafPlan | JoinMember, ...]:
        """The datasets that it reads: of a join, its members, the primary one first."""
        return (self,) if self.join is None else self.join.members
