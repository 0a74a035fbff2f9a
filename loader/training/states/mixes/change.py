"""Compare the mix of datasets of a state with a run's.

The descriptions of two chains are compared stage by stage. The datasets and weights of endless readers and of blends
may differ; any other difference is no change of the mix.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ....errors import StateError
from ....order import LaneMixes, Mix
from ....pipeline.contract.lane import child_seed
from ....pipeline.contract.pass_through import PassThroughDataset
from ....pipeline.contract.stage import SavableDataset, State
from ....pipeline.contract.state_schema import COUNT, converted
from ....pipeline.reading.order_plan import ShuffledPlan
from ....pipeline.reading.planned_schedule import saved_schedule
from ....pipeline.reading.read import ReadDataset
from ....pipeline.stages.blend import BlendDataset
from ..mix_history import MixChanges, StageChanges, reader_history, stage_changes
from .differences import differences, each_setting, leaf_name, pair_equal, shares
from .leaves import (
    OF_LEAVES,
    DescribedLeaf,
    LeafChange,
    leaves_in,
    leaves_of,
    match_leaves,
    progress_text,
    replaced_leaves,
    share_texts,
)

PLANNED = (
    "micro-batches or packs are planned, and samples of a dataset that left the mix are in windows that have begun; "
    "keep it with a small weight"
)
ENDS = "a pass that ends is divided over the lanes as a whole, so none of its datasets has an order of its own"
DEALT = "the datasets are not shuffled, so the lanes take turns in one sequence of all of them"
DEALT_SMALL = "the dataset has fewer than 4 samples a lane, so the lanes take turns in one sequence of its epochs"


@dataclass(slots=True)
class MixChange:
    """The change of a mix.

    Attributes:
        stages: Path of a reader or blend → its change, as :mod:`..mix_history` describes it.
        obstacles: Reasons why a run cannot continue exactly with the new mix.
    """

    leaves: list[LeafChange] = field(default_factory=list)
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    obstacles: list[str] = field(default_factory=list)

    @property
    def keeps_datasets(self) -> bool:
        return any(leaf.continues for leaf in self.leaves)

    def differences(self) -> list[str]:
        """Return a line for each dataset that does not continue with its weight."""
        lines = [leaf.difference() for leaf in self.leaves if leaf.is_difference]
        return lines or ["the same datasets and weights, in another order"]

    def entry(self, batch: int) -> dict[str, Any]:
        return {"batch": batch, "leaves": [leaf.to_plain() for leaf in self.leaves], "stages": self.stages}

    def add(self, other: MixChange) -> None:
        self.leaves += other.leaves
        self.stages |= other.stages
        self.obstacles += other.obstacles


def find_mix_change(saved: Any, chain: SavableDataset[Any], progress: SavedPlace) -> MixChange | None:
    """Compare the chain of a state with a run's.

    Returns:
        The change; None if the chains differ in other ways, too.
    """
    with suppress(LookupError, TypeError, AttributeError, ArithmeticError, ValueError):  # a damaged description
        return _compare(chain, saved, progress)
    return None


def check_units(saved: Any, now: Any, change: MixChange | None) -> None:
    """Check that the weights of a run count what they counted when its state was saved.

    Args:
        change: The change of the mix; None if the chains differ in other ways, too.
    """
    before, after = _units_by_dataset(saved), _units_by_dataset(now)
    names = before.keys() & after.keys()
    if change is not None:
        names &= {leaf.name for leaf in change.leaves if not leaf.continues}
    for name in sorted(names):
        if before[name] != after[name] and before[name] | after[name] != {"samples"}:  # one dataset counts samples, too
            raise StateError(
                f"the unit of the weights has changed since this state was saved: the weight of {name} was a share of "
                f"{_named(before[name])}, and is a share of {_named(after[name])}",
                hint="a run keeps the blend_weight_unit with which it began, and at least two datasets below it: "
                "restore with the unit of the state; or start a new run, without this state, and with another "
                "WorkerConfig(seed_offset=…) if its order shall differ",
            )


def _named(units: frozenset[str]) -> str:
    return ", ".join(sorted(units)) or "the only dataset"


def _units_by_dataset(identity: Any) -> dict[str, frozenset[str]]:
    """Return for each dataset what the weights above it count; nothing for a damaged description."""
    units_of: dict[str, frozenset[str]] = defaultdict(frozenset)
    with suppress(LookupError, TypeError, AttributeError, ValueError):
        for name, units in _units_above(identity, frozenset()):
            units_of[name] |= units
    return units_of


def _units_above(identity: Any, above: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    _, settings, *inputs = identity
    if settings.get("weights") and (len(inputs) > 1 or settings.get("unit")):
        unit = settings.get("unit")
        # A blend of samples that has a schedule counts them itself.
        above |= {"samples by a schedule" if unit == "samples" else unit or "samples"}
    for upstream in inputs:
        if isinstance(upstream, Mapping):
            yield leaf_name(upstream), above
        else:
            yield from _units_above(upstream, above)


def _compare(dataset: SavableDataset[Any], saved: Any, progress: SavedPlace) -> MixChange | None:
    if isinstance(dataset, PassThroughDataset):
        return _compare(dataset.inputs[0], saved, progress)
    if saved[0] != dataset.name:
        return None
    if isinstance(dataset, ReadDataset):
        return _compare_readers(dataset, saved, progress)
    if isinstance(dataset, BlendDataset):
        return _compare_blends(dataset, saved, progress)
    if dataset.nests_states:
        return None if any(differences(saved, dataset.identity())) else _unchanged(saved, progress)
    if len(saved) != 3 or any(differences(saved[1], dataset.settings())):
        return None
    return _compare(dataset.inputs[0], saved[2], progress)


def _compare_readers(dataset: ReadDataset, saved: Any, progress: SavedPlace) -> MixChange | None:
    # Without weights, or with repetitions, the reader delivers a pass: its mix cannot change within it.
    now = dataset.settings()
    is_same = not any(differences(saved, dataset.identity()))
    if not all("weights" in settings and "repetitions" not in settings for settings in (saved[1], now)):
        change = _unchanged(saved, progress)
        change.obstacles += [] if is_same else [ENDS]
        return change
    # Match the datasets, also with earlier mixes of this run.
    stage = progress.path + dataset.key
    history = stage_changes(progress.changes, stage)
    match = LeafMatch.of(saved, dataset, history)
    if match is None:
        return None
    # Describe what becomes of each dataset.
    positions = {lane: state.get(dataset.key, 0) for lane, state in progress.lanes.items()}
    consumed = match.consumed(positions, lanes=progress.count, seed=progress.seed, scale=progress.scale)
    change = MixChange(list(match.leaf_changes(consumed, before=progress.before, after=progress.after)))
    if is_same:
        return change
    # Record the change, for the reader and for later restores.
    change.stages[stage] = match.stage_change(positions)
    if dataset.groups is not None and not {*match.origins} <= {*match.new_origins}:
        change.obstacles.append(PLANNED)
    if not history and match.was_sequential(dataset):
        change.obstacles.append(DEALT)
    return change


def _compare_blends(dataset: BlendDataset[Any], saved: Any, progress: SavedPlace) -> MixChange | None:
    if dataset.unit != saved[1].get("unit"):
        return None
    # Pair the inputs with those of the state, which keep their origins.
    stage = progress.path + dataset.key
    history = stage_changes(progress.changes, stage)
    inputs = saved[2:]
    origins = [*history[-1][1]["origins"]] if history else [*range(len(inputs))]
    next_origin = history[-1][1]["next"] if history else len(inputs)
    before, after = shares(saved[1]["weights"], 1.0), shares(dataset.weights, 1.0)
    change = MixChange()
    unused = dict(zip(origins, zip(inputs, before, strict=True), strict=True))
    pairs = _pair_inputs(dataset, unused, progress)
    new_origins, added = [], []
    old_texts = dict(
        zip(origins, share_texts(saved[1].get("schedule"), len(inputs), whole=progress.before), strict=True)
    )
    new_texts = share_texts(dataset.settings().get("schedule"), len(dataset.inputs), whole=progress.after)
    # Compare each pair; an input without a pair is new.
    for upstream, share, text, origin in zip(dataset.inputs, after, new_texts, pairs, strict=True):
        if origin is None:
            added.append((upstream.identity(), progress.after * share))
            new_origins.append(next_origin)
            next_origin += 1
            continue
        was, weight = unused.pop(origin)
        inner = _compare(upstream, was, progress.child(dataset.key, origin, before=weight, after=share)) or MixChange()
        if len(inner.leaves) == 1 and not any(inner.leaves[0].schedules):
            inner.leaves = [replace(inner.leaves[0], schedules=(old_texts[origin], text))]
        change.add(inner)
        new_origins.append(origin)
    # Inputs of the state without a pair are gone.
    change.leaves += replaced_leaves([(was, progress.before * weight) for was, weight in unused.values()], added)
    now = dataset.settings()
    is_same = all(now.get(name) == saved[1].get(name) for name in ("weights", "schedule"))
    if new_origins != origins or not is_same:
        change.stages[stage] = {"origins": new_origins, "next": next_origin}
    return change


def _pair_inputs(
    dataset: BlendDataset[Any], inputs: Mapping[int, tuple[Any, float]], progress: SavedPlace
) -> list[int | None]:
    """Return for each input of a blend the origin of the saved input that it continues; None for a new one.

    Equal inputs continue each other first, then inputs that continue in part.
    """
    # Pair equal inputs.
    before = {origin: was for origin, (was, _) in inputs.items()}
    paired = pair_equal(before, [upstream.identity() for upstream in dataset.inputs], (_text_without_paths,))
    # Pair the rest if an input continues datasets of a saved one.
    left = {origin: was for origin, was in before.items() if origin not in paired}
    for row, upstream in enumerate(dataset.inputs):
        if paired[row] is not None:
            continue
        for origin in sorted(left):
            inner = _compare(upstream, left[origin], progress.child(dataset.key, origin, before=1, after=1))
            if inner is not None and inner.keeps_datasets and not inner.obstacles:
                paired[row] = origin
                del left[origin]
                break
    return paired


def _text_without_paths(identity: Any) -> str:
    """Return a text that differs for other chains; data may have been moved."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items() if key != "path"}
        return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value

    return json.dumps(plain(identity), sort_keys=True)


def _unchanged(saved: Any, progress: SavedPlace) -> MixChange:
    before, after = leaves_in(saved, progress.before), leaves_in(saved, progress.after)
    return MixChange(
        [
            LeafChange(name, "continues", share, new_share)
            for (name, share), (_, new_share) in zip(before, after, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafMatch:
    """The datasets of a reader, before and after a change of the mix.

    Attributes:
        new_origins: The numbers of ``after``; a dataset that continues keeps its number.
        schedule: The schedule of ``weights``, as the settings of a reader; None if they do not change.
    """

    before: Sequence[DescribedLeaf]
    after: Sequence[DescribedLeaf]
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
        # All settings but those of the datasets must be the same.
        old, now = saved[1], reader.settings()
        others, others_now = (
            {name: name_settings[name] for name in name_settings if name not in OF_LEAVES}
            for name_settings in (old, now)
        )
        if any(differences(others, others_now)):
            return None
        # Match the datasets with those of the state, also with those that are gone.
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
        # Other costs would give another plan.
        checksums = [dict(zip(origins, old.get("cost_checksums", ()), strict=False)), now.get("cost_checksums", ())]
        for origin, leaf, checksum in zip(matched, after, checksums[1], strict=False):
            if origin is not None and checksums[0].get(origin, checksum) != checksum:
                raise StateError(
                    f"the costs of {leaf_name(leaf.source)} have changed since this state was saved",
                    hint="restore the columns of the run that was saved, or start a new run",
                )
        # Number the new ones.
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
            scale: Factor for lanes that are not known here.
        """
        history = reader_history(self.history)
        schedule = saved_schedule(self.schedule, len(self.weights))
        mixes: tuple[Mix, ...] = (Mix((*self.origins,), (*self.weights,), schedule),)
        if history is not None:
            mixes = history.mixes(self.weights, schedule)
        total: dict[int, float] = defaultdict(float)
        for lane, position in positions.items():
            ends = () if history is None else history.ends_of(lane)
            if converted(position, COUNT, f"lane {lane}") < max(ends, default=0):
                raise StateError(f"this state is damaged: lane {lane} is at position {position!r}")
            lane_mixes = LaneMixes(mixes, lane=lane, lanes=lanes, seed=seed, ends=ends)
            for origin, count in lane_mixes.consumed(position).items():
                total[origin] += count * scale
        return total

    def leaf_changes(self, consumed: Mapping[int, float], *, before: float, after: float) -> Iterator[LeafChange]:
        # Collect the shares before and after.
        old_shares = dict(zip(self.origins, shares(self.weights, before), strict=True))
        old_texts = dict(zip(self.origins, share_texts(self.schedule, len(self.before), whole=before), strict=True))
        new_texts = share_texts(self.new_schedule, len(self.after), whole=after)
        ended = self._ended()
        known = {*self.origins, *consumed}
        new_shares = shares(self.new_weights, after)
        # Describe the datasets of the new mix; one at the path of an ended one has changed.
        for origin, leaf, share, new_text in zip(self.new_origins, self.after, new_shares, new_texts, strict=True):
            before_origin: int | None = origin
            if origin in known:
                text = f"continues at {progress_text(consumed.get(origin, 0), leaf.source)}"
            else:
                before_origin = next(
                    (gone for gone in ended if ended[gone].source["path"] == leaf.source["path"]),
                    None,
                )
                text = "new" if before_origin is None else leaf.changed_from(ended.pop(before_origin))
            old_share, old_text = (None, None)
            if before_origin is not None:
                old_share, old_text = old_shares.get(before_origin), old_texts.get(before_origin)
            yield LeafChange(leaf_name(leaf.source), text, old_share, share, (old_text, new_text))
        # The rest of the old mix is gone.
        for origin, leaf in ended.items():
            yield LeafChange(leaf_name(leaf.source), "gone", old_shares[origin], None, (old_texts[origin], None))

    def stage_change(self, positions: Mapping[int, int]) -> dict[str, Any]:
        # Keep the datasets that ended: a later mix may have them again, and continue them.
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

    def _ended(self) -> dict[int, DescribedLeaf]:
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


def _gone(history: StageChanges, origins: Sequence[int]) -> dict[int, DescribedLeaf]:
    """Return the datasets that earlier changes removed, the last one first."""
    return {
        leaf["origin"]: DescribedLeaf(leaf["source"], leaf["slice_length"], leaf["epochs_together"])
        for _, change in reversed(history)
        for leaf in change["gone"]
        if leaf["origin"] not in origins
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlace:
    """A place in a chain, and the state of the run there.

    Attributes:
        lanes: The states of the lanes that have begun, as far as they are known here.
        scale: Number of lanes that have begun, for each of these.
        path: The origins of the inputs of blends that lead here: ``"1/0/"``.
        before: The share of these samples in the mix of the state.
    """

    lanes: Mapping[int, State]
    scale: float
    count: int
    changes: MixChanges
    seed: int
    path: str = ""
    before: float = 1.0
    after: float = 1.0

    def child(self, key: str, origin: int, *, before: float, after: float) -> SavedPlace:
        return replace(
            self,
            lanes={lane: state.get(key, {}).get(str(origin), {}) for lane, state in self.lanes.items()},
            seed=child_seed(self.seed, origin),
            path=f"{self.path}{origin}/",
            before=self.before * before,
            after=self.after * after,
        )
