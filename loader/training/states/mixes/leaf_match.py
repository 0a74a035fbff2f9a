"""Match the datasets of a reader in a state with those of a run, and count what the run has read of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import StateError
from ....order import LaneMixes, Mix
from ....pipeline.contract.state_schema import COUNT
from ....pipeline.reading.order_plan import ShuffledPlan
from ....pipeline.reading.planned_schedule import saved_schedule
from ....pipeline.reading.read import ReadDataset
from ..mix_history import StageChanges, reader_history
from .differences import differences, each_setting, leaf_name, shares
from .leaves import OF_LEAVES, Leaf, LeafChange, leaves_of, match_leaves, progress_text, share_texts


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
        old_texts = dict(zip(self.origins, share_texts(self.schedule, len(self.before), whole=before), strict=True))
        new_texts = share_texts(self.new_schedule, len(self.after), whole=after)
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


def _gone(history: StageChanges, origins: Sequence[int]) -> dict[int, Leaf]:
    """Return the datasets that earlier changes removed, the last one first."""
    return {
        one["origin"]: Leaf(one["source"], one["slice_length"], one["epochs_together"])
        for _, change in reversed(history)
        for one in change["gone"]
        if one["origin"] not in origins
    }
