"""The tree of blends of a metadataset, with the shares of its leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from sys import float_info

from ..documents.leaf_plan import BlendStep, EntrySchedule

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
