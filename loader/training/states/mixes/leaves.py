"""Match the datasets of a reader in a state with those of a run, and describe what became of each."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import StateError
from ....order import LaneMixes, Mix
from ....pipeline.contract.state_schema import COUNT
from ....pipeline.reading.order_plan import ShuffledPlan
from ....pipeline.reading.planned_schedule import saved_schedule, schedule_texts
from ....pipeline.reading.read import ReadDataset
from ..mix_history import StageChanges, reader_history
from .differences import Difference, differences, each_setting, leaf_name, shares

__all__ = [
    "OF_LEAVES",
    "Leaf",
    "LeafChange",
    "LeafMatch",
    "leaves_in",
    "leaves_of",
    "match_leaves",
    "progress_text",
    "replaced_leaves",
]

OF_LEAVES = ("weights", "slice_lengths", "epochs_together", "measured", "schedule")
"""Settings of a reader that its datasets have."""
_NAMES = {"split_part": "split part", "filter": "filter"}


@dataclass(frozen=True, slots=True)
class LeafChange:
    """The change of one dataset.

    Attributes:
        name: ``"/data/a, train"``.
        change: ``"continues at 41 %"``, ``"new"``, ``"gone"`` or ``"changed: … (starts over)"``.
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
        """True if the dataset is in both mixes."""
        return self.change.startswith("continues")

    @property
    def is_difference(self) -> bool:
        """True unless the dataset continues with its weight."""
        return not self.continues or len(self._weights()) > 1

    def _weights(self) -> list[str]:
        """Return the weights of both mixes, or one if they are equal."""
        pairs = zip((self.before, self.after), self.schedules, strict=True)
        return [*dict.fromkeys(text or f"{share:.3g}" for share, text in pairs if share is not None)]

    @property
    def _weight(self) -> str:
        """The weights of both mixes: ``"weight 0.5 → 0.2"``."""
        return f"{'weight schedule' if any(self.schedules) else 'weight'} {' → '.join(self._weights())}"

    def difference(self) -> str:
        """Describe the change for a run that does not continue."""
        if any(self.schedules):
            return f"{self.name}: {self._weight}" if self.continues else str(self)
        if self.continues or None in (self.before, self.after):
            return str(Difference(self.name, "weight", self.before, self.after))
        return str(self)

    def __str__(self) -> str:
        return f"{self.name}: {self.change}, {self._weight}"

    def to_plain(self) -> dict[str, Any]:
        """Return the change as plain data; the weights are rounded, for people."""
        return {"dataset": self.name, "change": self.change, "weight": " → ".join(self._weights())}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A dataset of a reader, with the settings of its order.

    Attributes:
        source: Its description.
        slice_length: Neighbouring samples that are read one after another.
        epochs_together: ``shuffle_over_epochs_multiplier``.
    """

    source: Mapping[str, Any]
    slice_length: int
    epochs_together: int | None

    def key(self, *, moved: bool) -> str:
        """Return a text that differs for other data; with ``moved`` the path does not count."""
        source = {name: value for name, value in self.source.items() if not (moved and name == "path")}
        return json.dumps([source, self.epochs_together], sort_keys=True)

    def changed_from(self, old: Leaf) -> str:
        """Describe the difference from another version of the dataset."""
        found = [
            f"{text} {old.source.get(name) or 'none'} → {self.source.get(name) or 'none'}"
            for name, text in _NAMES.items()
            if old.source.get(name) != self.source.get(name)
        ]
        if self.epochs_together != old.epochs_together:
            found.append(f"shuffle_over_epochs_multiplier {old.epochs_together} → {self.epochs_together}")
        if self.source.get("uuid") != old.source.get("uuid"):
            found.append("prepared again")
        if not found:
            found.append(f"subset or content, {old.source['samples']} → {self.source['samples']} samples")
        return f"changed: {', '.join(found)} (starts over)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafMatch:
    """The datasets of a reader, before and after a change of the mix.

    Attributes:
        before: The datasets of the state.
        after: Those of the run.
        weights: The weights of ``before``.
        new_weights: The weights of ``after``.
        origins: The numbers of ``before``.
        new_origins: The numbers of ``after``; those of datasets that continue are the same.
        next_origin: The number of the next new dataset.
        history: The earlier changes of the reader.
        schedule: The schedule of ``weights``, as the settings of a reader; None if they do not change.
        new_schedule: That of ``new_weights``.
    """

    before: Sequence[Leaf]
    after: Sequence[Leaf]
    weights: Sequence[float]
    new_weights: Sequence[float]
    origins: Sequence[int]
    new_origins: Sequence[int]
    next_origin: int
    history: StageChanges
    schedule: Mapping[str, Any] | None
    new_schedule: Mapping[str, Any] | None

    @classmethod
    def of(cls, saved: Any, reader: ReadDataset, history: StageChanges) -> LeafMatch | None:
        """Match the datasets of a reader; None if other settings of the reader differ.

        A dataset continues one of the state, or one that an earlier change of the mix removed.
        """
        old, now = saved[1], reader.settings()
        others, others_now = ({name: one[name] for name in one if name not in OF_LEAVES} for one in (old, now))
        if any(differences(others, others_now)):
            return None
        before = leaves_of(old, saved[2:])
        after = leaves_of(now, [source.identity() for source in reader.sources])
        origins = [*history[-1][1]["origins"]] if history else [*range(len(before))]
        known = dict(zip(origins, before, strict=True)) | _gone(history, origins)
        matched = match_leaves(known, after)
        if any(
            origin is not None and known[origin].slice_length != leaf.slice_length
            for origin, leaf in zip(matched, after, strict=True)
        ):
            return None  # another max_samples_per_sequence
        next_origin = history[-1][1]["next"] if history else len(before)
        new_origins = []
        for origin in matched:
            new_origins.append(next_origin if origin is None else origin)
            next_origin += origin is None
        return cls(
            before=before,
            after=after,
            weights=each_setting(old["weights"], len(before)),
            new_weights=each_setting(now["weights"], len(after)),
            origins=origins,
            new_origins=new_origins,
            next_origin=next_origin,
            history=history,
            schedule=old.get("schedule"),
            new_schedule=now.get("schedule"),
        )

    def consumed(self, positions: Mapping[int, Any], *, lanes: int, seed: int, scale: float) -> dict[int, float]:
        """Return for each number the samples that the run has read of its dataset.

        Args:
            positions: The positions of the lanes.
            lanes: L of the run.
            seed: The reader's.
            scale: Factor for lanes that are not known here.

        Raises:
            StateError: A position is damaged.
        """
        history = reader_history(self.history)
        schedule = saved_schedule(self.schedule, len(self.weights))
        mixes: tuple[Mix, ...] = (Mix((*self.origins,), (*self.weights,), schedule),)
        if history is not None:
            mixes = history.mixes(self.weights, schedule)
        total: dict[int, float] = defaultdict(float)
        for lane, position in positions.items():
            ends = () if history is None else history.ends_of(lane)
            start = None if history is None else history.start_of(lane)
            if not COUNT.accepts(position) or position < max((*ends, 0 if start is None else start.position)):
                raise StateError(f"this state is damaged: lane {lane} is at position {position!r}")
            lane_mixes = LaneMixes(mixes, lane=lane, lanes=lanes, seed=seed, ends=ends, start=start)
            for origin, count in lane_mixes.consumed(position).items():
                total[origin] += count * scale
        return total

    def leaf_changes(self, consumed: Mapping[int, float], *, before: float, after: float) -> Iterator[LeafChange]:
        """Yield the change of each dataset.

        Args:
            consumed: The result of :meth:`consumed`.
            before: The share of the reader's samples in the whole mix of the state.
            after: The share in the mix of the run.
        """
        old_shares = dict(zip(self.origins, shares(self.weights, before), strict=True))
        old_texts = dict(zip(self.origins, _texts(self.schedule, len(self.before), before), strict=True))
        new_texts = _texts(self.new_schedule, len(self.after), after)
        ended = self._ended()
        known = {*self.origins, *consumed}
        new_shares = shares(self.new_weights, after)
        for origin, leaf, share, new_text in zip(self.new_origins, self.after, new_shares, new_texts, strict=True):
            before_origin: int | None = origin
            if origin in known:
                text = f"continues at {progress_text(consumed.get(origin, 0), leaf.source['samples'])}"
            else:
                before_origin = next((one for one in ended if ended[one].source["path"] == leaf.source["path"]), None)
                text = "new" if before_origin is None else leaf.changed_from(ended.pop(before_origin))
            old_share, old_text = (None, None)
            if before_origin is not None:
                old_share, old_text = old_shares.get(before_origin), old_texts.get(before_origin)
            yield LeafChange(leaf_name(leaf.source), text, old_share, share, (old_text, new_text))
        for origin, leaf in ended.items():
            yield LeafChange(leaf_name(leaf.source), "gone", old_shares[origin], None, (old_texts[origin], None))

    def stage_change(self, positions: Mapping[int, int]) -> dict[str, Any]:
        """Return the change as :mod:`..mix_history` describes it."""
        gone = [
            {
                "origin": origin,
                "slice_length": leaf.slice_length,
                "epochs_together": leaf.epochs_together,
                "source": dict(leaf.source),
            }
            for origin, leaf in self._ended().items()
        ]
        return {
            "weights": [*self.weights],
            **({} if self.schedule is None else {"schedule": dict(self.schedule)}),
            "origins": [*self.new_origins],
            "next": self.next_origin,
            "lanes": {str(lane): position for lane, position in sorted(positions.items())},
            "gone": gone,
        }

    def _ended(self) -> dict[int, Leaf]:
        """Return the datasets that do not continue."""
        kept = {*self.new_origins}
        return {origin: leaf for origin, leaf in zip(self.origins, self.before, strict=True) if origin not in kept}

    def was_sequential(self, reader: ReadDataset) -> bool:
        """Return True if the order of the state is not shuffled, and is one sequence for all lanes."""
        plan = reader.plan
        return (
            isinstance(plan, ShuffledPlan)
            and plan.chunk is not None
            and plan.shuffle_buffer <= 1
            and all(leaf.epochs_together is None for leaf in self.before)
        )


def _texts(schedule: Mapping[str, Any] | None, sources: int, whole: float) -> Sequence[str | None]:
    """Return the shares of each dataset as texts; None each without a schedule."""
    return [None] * sources if schedule is None else schedule_texts(schedule, sources, whole=whole)


def leaves_in(identity: Any, share: float) -> Iterator[tuple[str, float]]:
    """Yield the names of the datasets in the description of a chain, and their shares of the samples.

    Args:
        identity: ``[name, settings, *inputs]``.
        share: The share of the whole chain.
    """
    yield from ((leaf_name(leaf.source), part) for leaf, part in _leaves_with_shares(identity, share))


def _leaves_with_shares(identity: Any, share: float) -> Iterator[tuple[Leaf, float]]:
    settings, inputs = identity[1], identity[2:]
    if inputs and isinstance(inputs[0], Mapping):
        weights = settings.get("weights") or [one["samples"] for one in inputs]
        leaves = leaves_of({"slice_lengths": 0} | dict(settings), inputs)
        yield from zip(leaves, shares(each_setting(weights, len(inputs)), share), strict=True)
        return
    weights = settings.get("weights") or [1.0] * len(inputs)
    for inner, part in zip(inputs, shares(weights, share), strict=True):
        yield from _leaves_with_shares(inner, part)


def replaced_leaves(before: Iterable[tuple[Any, float]], after: Iterable[tuple[Any, float]]) -> Iterator[LeafChange]:
    """Yield the changes of datasets of inputs that are gone, and of new ones; those of one path have changed.

    Args:
        before: Descriptions of chains that are gone, and their shares of the samples.
        after: Those of new ones.
    """
    ended = [leaf for identity, share in before for leaf in _leaves_with_shares(identity, share)]
    for identity, share in after:
        for leaf, part in _leaves_with_shares(identity, share):
            was = next((one for one in ended if one[0].source["path"] == leaf.source["path"]), None)
            if was is None:
                yield LeafChange(leaf_name(leaf.source), "new", None, part)
            else:
                ended.remove(was)
                yield LeafChange(leaf_name(leaf.source), leaf.changed_from(was[0]), was[1], part)
    for leaf, part in ended:
        yield LeafChange(leaf_name(leaf.source), "gone", part, None)


def leaves_of(settings: Mapping[str, Any], sources: Sequence[Mapping[str, Any]]) -> list[Leaf]:
    """Return the datasets of a reader from its settings and their descriptions."""
    lengths = each_setting(settings["slice_lengths"], len(sources))
    together = each_setting(settings.get("epochs_together"), len(sources))
    return [Leaf(*one) for one in zip(sources, lengths, together, strict=True)]


def _gone(history: StageChanges, origins: Sequence[int]) -> dict[int, Leaf]:
    """Return the datasets that earlier changes removed, the last one first."""
    return {
        one["origin"]: Leaf(one["source"], one["slice_length"], one["epochs_together"])
        for _, change in reversed(history)
        for one in change["gone"]
        if one["origin"] not in origins
    }


def match_leaves(known: Mapping[int, Leaf], leaves: Sequence[Leaf]) -> list[int | None]:
    """Return for each dataset the number of the known one with the same data and order; None for a new one.

    Equal ones in several places are matched in their order. The uuid identifies data that were moved.
    """
    found: list[int | None] = [None] * len(leaves)
    for moved in (False, True):
        free: dict[str, deque[int]] = defaultdict(deque)
        used = {*found}
        for origin, leaf in known.items():
            if origin not in used:
                free[leaf.key(moved=moved)].append(origin)
        for row, leaf in enumerate(leaves):
            if found[row] is None and (same := free.get(leaf.key(moved=moved))):
                found[row] = same.popleft()
    return found


def progress_text(consumed: float, samples: int) -> str:
    """Describe how far a dataset was read: ``"41 % of epoch 2"``."""
    epoch, percent = divmod(int(100 * consumed / samples), 100)
    return f"{percent} % of epoch {epoch + 1}" if epoch else f"{percent} %"
