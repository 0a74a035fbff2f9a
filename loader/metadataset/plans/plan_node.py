"""The tree of a metadataset, the settings that its places inherit, and checks for leaves that share samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import fsum
from sys import float_info
from typing import Literal

from ...errors import ConfigError, escape_controls
from ...format.dataset_ref import DatasetRef
from ...format.documents.providers import LoadRequest, is_record_file
from ...format.documents.subset import do_overlap
from ..documents.leaf_plan import BlendStep, EntrySchedule, JoinPlan, LeafPlan, SourceSpec, combine_starts

SAMPLES = "samples"
"""The default unit of weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafGroup:
    """Leaves that are mixed by shares of their samples: one leaf, or a part of the tree without another unit.

    Attributes:
        weights: Share of each in the samples of the group.
    """

    leaves: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitBlend:
    """A blend on the way from the root to leaves below another unit than samples.

    Attributes:
        weights: Weight of each entry; of one whose weight changes, the first, which may be 0.
        schedules: The weights of each entry in the stretches of the run; None if its weight never changes.
    """

    unit: str
    weights: tuple[float, ...]
    entries: tuple[UnitBlend | LeafGroup, ...]
    schedules: tuple[EntrySchedule | None, ...]

    @property
    def is_scheduled(self) -> bool:
        return any(schedule is not None for schedule in self.schedules)

    def at(self, start: int) -> UnitBlend:
        weights = tuple(
            weight if schedule is None else schedule.at(start)
            for weight, schedule in zip(self.weights, self.schedules, strict=True)
        )
        entries = tuple(entry.at(start) if isinstance(entry, UnitBlend) else entry for entry in self.entries)
        return replace(self, weights=weights, entries=entries, schedules=(None,) * len(weights))

    def groups(self) -> Iterator[LeafGroup]:
        for entry in self.entries:
            if isinstance(entry, LeafGroup):
                yield entry
            else:
                yield from entry.groups()

    def units(self) -> Iterator[str]:
        yield self.unit
        for entry in self.entries:
            if isinstance(entry, UnitBlend):
                yield from entry.units()


def blend_tree(leaves: Sequence[Sequence[BlendStep]]) -> UnitBlend | LeafGroup:
    """Return the tree of blends above some leaves; a part without another unit than samples is one group.

    Below or above another unit, blends whose weights change are blends of their own.

    Args:
        leaves: For each leaf, the blends that lead to it, from the outermost.

    >>> steps = [[BlendStep(entry=0, amount=3.0, unit="tokens")], [BlendStep(entry=1, amount=1.0, unit="tokens")]]
    >>> tree = blend_tree(steps)
    >>> tree.unit, tree.weights, [group.leaves for group in tree.groups()]
    ('tokens', (3.0, 1.0), [(0,), (1,)])
    """
    group = list(range(len(leaves)))
    if all(step.unit == SAMPLES for steps in leaves for step in steps):
        return _group(group, 0, leaves)
    return _tree(group, 0, leaves)


def sample_shares(tree: UnitBlend | LeafGroup, mean_size: Callable[[int, str], float]) -> dict[int, float]:
    """Return the expected share of each leaf in the samples of a tree of blends; they sum to 1.

    Args:
        mean_size: Returns the mean size of a leaf's samples in a unit: ``mean_size(leaf, unit)``.

    >>> steps = [[BlendStep(entry=0, amount=1.0, unit="tokens")], [BlendStep(entry=1, amount=1.0, unit="tokens")]]
    >>> sample_shares(blend_tree(steps), lambda leaf, unit: [100.0, 300.0][leaf])
    {0: 0.75, 1: 0.25}
    """
    if isinstance(tree, LeafGroup):
        return dict(zip(tree.leaves, tree.weights, strict=True))
    # The shares within an entry determine the mean size of its samples.
    inner = [sample_shares(entry, mean_size) for entry in tree.entries]
    amounts = []
    # An entry's part of the samples is its weight divided by that size.
    for weight, within in zip(tree.weights, inner, strict=True):
        size = 1.0
        if tree.unit != SAMPLES:
            size = sum(share * mean_size(leaf, tree.unit) for leaf, share in within.items()) or 1.0
        amounts.append(weight / size)
    total = sum(amounts) or 1.0  # all are 0 where the blend has no share
    return {
        leaf: amount / total * share
        for amount, within in zip(amounts, inner, strict=True)
        for leaf, share in within.items()
    }


def _tree(group: list[int], depth: int, leaves: Sequence[Sequence[BlendStep]]) -> UnitBlend | LeafGroup:
    """Return the tree of one entry: its leaves have the same steps up to ``depth``."""
    if all(step.unit == SAMPLES and step.schedule is None for leaf in group for step in leaves[leaf][depth:]):
        return _group(group, depth, leaves)
    entries = _entries(group, depth, leaves)
    steps = [leaves[members[0]][depth] for members in entries]
    return UnitBlend(
        unit=steps[0].unit,
        weights=tuple(step.amount for step in steps),
        entries=tuple(_tree(members, depth + 1, leaves) for members in entries),
        schedules=tuple(step.schedule for step in steps),
    )


def _group(group: list[int], depth: int, leaves: Sequence[Sequence[BlendStep]]) -> LeafGroup:
    shares = _shares(group, depth, leaves)
    return LeafGroup(leaves=tuple(shares), weights=tuple(shares.values()))


def _entries(group: list[int], depth: int, leaves: Sequence[Sequence[BlendStep]]) -> list[list[int]]:
    by_entry: dict[int, list[int]] = {}
    for leaf in group:
        by_entry.setdefault(leaves[leaf][depth].entry, []).append(leaf)
    return [*by_entry.values()]


def _shares(group: list[int], depth: int, leaves: Sequence[Sequence[BlendStep]]) -> dict[int, float]:
    if len(leaves[group[0]]) == depth:
        return {group[0]: 1.0}
    # Divide among the entries of this blend, and then within each entry.
    entries = _entries(group, depth, leaves)
    amounts = [leaves[members[0]][depth].amount for members in entries]
    largest = max(amounts) or 1.0  # dividing by it first keeps the sum of large weights finite
    total = sum(amount / largest for amount in amounts) or 1.0
    return {
        leaf: max(amount / largest / total * share, float_info.min)  # a product may underflow to 0
        for amount, members in zip(amounts, entries, strict=True)
        for leaf, share in _shares(members, depth + 1, leaves).items()
    }


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


NodeKind = Literal["dataset", "join", "metadataset", "blend", "blend_epochized"]
"""The first two are leaves. A metadataset has one child, the contents of its split; blends mix their children."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """A node in a tree of metadatasets.

    Attributes:
        place: Place of the node, as in :class:`.LeafPlan`; empty for the root.
        kind: Kind of the node.
        path: For a leaf or metadataset, its resolved path; for others, the file that contains them.
        split_part: The split of a metadataset, or the split part of a leaf.
        weight: Share of all samples; None if nothing is weighted.
        repetitions: Repetitions in a pass; None if nothing is repeated.
        children: The children, in order.
        leaf: The plan of a leaf; None for other nodes.
        unit: What the weights of a blend are shares of.
        schedule: Share of all samples in each stretch of the run, if weights of the tree change.
    """

    place: str
    kind: NodeKind
    path: str
    split_part: str
    weight: float | None = None
    repetitions: float | None = None
    children: tuple[PlanNode, ...] = ()
    leaf: LeafPlan | None = None
    unit: str = "samples"
    schedule: EntrySchedule | None = None

    def leaves(self) -> Iterator[LeafPlan]:
        if self.leaf is not None:
            yield self.leaf
        for child in self.children:
            yield from child.leaves()


class RepeatedLeafWarning(UserWarning):
    """Two leaves of a metadataset share samples."""


_MAX_COMPARED = 50
"""Places of one dataset that are compared in pairs; of more places, only the first ones are compared."""


def warn_of_repeated_leaves(root: PlanNode) -> None:
    """Warn of each of :func:`find_repeated_leaves`."""
    for message in find_repeated_leaves(root):
        warnings.warn(escape_controls(message), RepeatedLeafWarning, stacklevel=4)


def find_repeated_leaves(root: PlanNode) -> Iterator[str]:
    """Yield a message for each dataset in which two leaves, read with the same settings, share samples."""
    for same in _by_identity(root).values():
        # The first pair that overlaps is enough for a message about the dataset.
        for (path, leaf), (other_path, other) in combinations(same[:_MAX_COMPARED], 2):
            if _do_overlap(leaf, other):
                yield (
                    f"samples of {leaf.path} ({leaf.split_part}) are reached twice, at {path} and at {other_path}; "
                    "both count. Remove one, or give them subsets that do not overlap"
                )
                break


def find_shared_leaves(root: PlanNode, other_root: PlanNode) -> Iterator[str]:
    """Yield a message for each dataset from which two splits read the same samples."""
    others = _by_identity(other_root)
    for identity, same in _by_identity(root).items():
        pairs = product(same[:_MAX_COMPARED], others.get(identity, ())[:_MAX_COMPARED])
        for (path, leaf), (other_path, other) in pairs:
            if _do_overlap(leaf, other):
                yield f"samples of {leaf.path} ({leaf.split_part}) are reached at {path} and at {other_path}"
                break


def _do_overlap(leaf: LeafPlan, other: LeafPlan) -> bool:
    """Return True if two leaves of one dataset share samples, as far as their settings show.

    Subsets count the samples that a filter keeps, so subsets under different filters cannot be compared.
    """
    if leaf.filter == other.filter:
        return do_overlap(leaf.request.subset, other.request.subset)
    return any(either.filter is None and not either.request.subset for either in (leaf, other))


def _by_identity(root: PlanNode) -> dict[Hashable, list[tuple[str, LeafPlan]]]:
    places: dict[Hashable, list[tuple[str, LeafPlan]]] = {}
    for path, leaf in _leaves_with_path(root, ""):
        places.setdefault(_identity(leaf), []).append((path, leaf))
    return places


def _leaves_with_path(node: PlanNode, prefix: str) -> Iterator[tuple[str, LeafPlan]]:
    if node.leaf is not None:
        yield prefix + node.place, node.leaf
    # Places in a nested file follow the place that references it.
    if node.kind == "metadataset" and node.place:
        prefix += f"{node.place} → "
    for child in node.children:
        yield from _leaves_with_path(child, prefix)


def _identity(leaf: LeafPlan) -> Hashable:
    if is_record_file(leaf.path):
        return (leaf.path,)  # single files have no split parts
    if leaf.join is None:
        return (leaf.ref, leaf.split_part)
    return tuple((member.ref, member.split_part, member.filter) for member in leaf.join.members)
