"""Describe the datasets of readers, and what became of each when a mix changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....dataset.packed_numbers import count_packed
from ....pipeline.reading.planned_schedule import schedule_texts
from .differences import Difference, each_setting, leaf_name, pair_equal, shares

OF_LEAVES = ("weights", "slice_lengths", "epochs_together", "schedule", "cost_checksums")
"""Settings of a reader that its datasets have."""
_NAMES = {"split_part": "split part", "filter": "filter"}


@dataclass(frozen=True, slots=True)
class LeafChange:
    """The change of one dataset.

    Attributes:
        name: ``"/data/a, train"``.
        change: ``"continues at 41 %"``, ``"new"``, ``"gone"``, ``"changed: … (starts over)"`` or ``"moved …"``.
        before: Its share of the samples in the mix of the state; None if it was not in it.
        after: Its share in the mix of the run; None if it is not in it.
        schedules: The shares before and after as texts; None: they do not change during the run.
    """

    name: str
    change: str
    before: float | None
    after: float | None
    schedules: tuple[str | None, str | None] = (None, None)

    @property
    def continues(self) -> bool:
        return self.change.startswith("continues")

    @property
    def is_difference(self) -> bool:
        return not self.continues or len(self._weights()) > 1

    def _weights(self) -> list[str]:
        pairs = zip((self.before, self.after), self.schedules, strict=True)
        return [*dict.fromkeys(text or f"{share:.3g}" for share, text in pairs if share is not None)]

    @property
    def _weight(self) -> str:
        return f"{'weight schedule' if any(self.schedules) else 'weight'} {' → '.join(self._weights())}"

    def difference(self) -> str:
        if any(self.schedules):
            return f"{self.name}: {self._weight}" if self.continues else str(self)
        if self.continues or None in (self.before, self.after):
            return str(Difference(self.name, "weight", self.before, self.after))
        return str(self)

    def __str__(self) -> str:
        return f"{self.name}: {self.change}, {self._weight}"

    def to_plain(self) -> dict[str, Any]:
        return {"dataset": self.name, "change": self.change, "weight": " → ".join(self._weights())}


@dataclass(frozen=True, slots=True)
class DescribedLeaf:
    """A dataset of a reader, with the settings of its order.

    Attributes:
        epochs_together: ``shuffle_over_epochs_multiplier``.
    """

    source: Mapping[str, Any]
    slice_length: int
    epochs_together: int | None

    def key(self, *, moved: bool) -> str:
        """Return a text that differs for other data, whatever it excludes; with ``moved`` the path does not count."""
        ignored = ("excluded", "path") if moved else ("excluded",)
        source = {name: value for name, value in self.source.items() if name not in ignored}
        return json.dumps([source, self.epochs_together], sort_keys=True)

    def changed_from(self, old: DescribedLeaf) -> str:
        changes = [
            f"{text} {old.source.get(name) or 'none'} → {self.source.get(name) or 'none'}"
            for name, text in _NAMES.items()
            if old.source.get(name) != self.source.get(name)
        ]
        if self.epochs_together != old.epochs_together:
            changes.append(f"shuffle_over_epochs_multiplier {old.epochs_together} → {self.epochs_together}")
        if self.source.get("uuid") != old.source.get("uuid"):
            changes.append("prepared again")
        if self.key(moved=True) == old.key(moved=True):
            return "moved to another blend (starts over)"
        if not changes:
            changes.append(f"subset or content, samples: {old.source['samples']} → {self.source['samples']}")
        return f"changed: {', '.join(changes)} (starts over)"


def leaves_in(identity: Any, share: float) -> Iterator[tuple[str, float]]:
    """Yield the names of the datasets in the description of a chain, and their shares of the samples."""
    yield from ((leaf_name(leaf.source), part) for leaf, part in _leaves_with_shares(identity, share))


def _leaves_with_shares(identity: Any, share: float) -> Iterator[tuple[DescribedLeaf, float]]:
    settings, inputs = identity[1], identity[2:]
    if inputs and isinstance(inputs[0], Mapping):
        weights = settings.get("weights") or [source["samples"] for source in inputs]
        leaves = leaves_of({"slice_lengths": 0} | dict(settings), inputs)
        yield from zip(leaves, shares(each_setting(weights, len(inputs)), share), strict=True)
        return
    weights = settings.get("weights") or [1.0] * len(inputs)
    for inner, part in zip(inputs, shares(weights, share), strict=True):
        yield from _leaves_with_shares(inner, part)


def replaced_leaves(before: Iterable[tuple[Any, float]], after: Iterable[tuple[Any, float]]) -> Iterator[LeafChange]:
    """Yield the changes of datasets of inputs that are gone and of new inputs; a path in both has changed."""
    ended = [leaf for identity, share in before for leaf in _leaves_with_shares(identity, share)]
    for identity, share in after:
        for leaf, part in _leaves_with_shares(identity, share):
            was = next((gone for gone in ended if gone[0].source["path"] == leaf.source["path"]), None)
            if was is None:
                yield LeafChange(leaf_name(leaf.source), "new", None, part)
            else:
                ended.remove(was)
                yield LeafChange(leaf_name(leaf.source), leaf.changed_from(was[0]), was[1], part)
    for leaf, part in ended:
        yield LeafChange(leaf_name(leaf.source), "gone", part, None)


def sources_in(identity: Any) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of the datasets in the description of a chain, in order."""
    if isinstance(identity, list | tuple):
        for part in identity:
            yield from sources_in(part)
    elif isinstance(identity, Mapping) and "path" in identity and "samples" in identity:
        yield dict(identity)


def leaves_of(settings: Mapping[str, Any], sources: Sequence[Mapping[str, Any]]) -> list[DescribedLeaf]:
    """Return the datasets of a reader from its settings and their descriptions."""
    lengths = each_setting(settings["slice_lengths"], len(sources))
    together = each_setting(settings.get("epochs_together"), len(sources))
    return [DescribedLeaf(*facts) for facts in zip(sources, lengths, together, strict=True)]


def match_leaves(known: Mapping[int, DescribedLeaf], leaves: Sequence[DescribedLeaf]) -> list[int | None]:
    """Return for each dataset the number of the known one with the same data and order; None for a new one.

    Equal ones in several places are matched in their order. The uuid identifies data that were moved.
    """
    return pair_equal(known, leaves, (lambda leaf: leaf.key(moved=False), lambda leaf: leaf.key(moved=True)))


def progress_text(consumed: float, source: Mapping[str, Any]) -> str:
    """Describe how far a dataset was read: ``"41 % of epoch 2"``."""
    samples = source["samples"] - count_packed(source.get("excluded", ""))
    epoch, percent = divmod(int(100 * consumed / samples), 100)
    return f"{percent} % of epoch {epoch + 1}" if epoch else f"{percent} %"


def share_texts(schedule: Mapping[str, Any] | None, count: int, *, whole: float) -> Sequence[str | None]:
    """Return the shares of datasets, or of inputs, as texts; None each without a schedule."""
    return [None] * count if schedule is None else schedule_texts(schedule, count, whole=whole)
