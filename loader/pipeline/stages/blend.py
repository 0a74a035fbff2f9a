"""Blend datasets by weight, as single items or within each batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, NoReturn, NotRequired

import numpy as np

from ...errors import ConfigError, StateError, plural
from ...order import BlendOrder, quantise_weights
from ..contract.item_id import ItemId
from ..contract.lane import Lane, note_lost_item
from ..contract.running import RunningFunctions, StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.state_schema import COUNT, NUMBER, Schema, count_below, saved_dict
from ..contract.worker_config import WorkerConfig
from ..reading.lane_samples import LaneSamples, counted_blend
from ..reading.order_plan import samples_of_round
from ..reading.planned_schedule import PlannedSchedule
from .batch import BatchDataset
from .map import MapDataset
from .volume_blend import VolumeBlendRunning


class BlendDataset(SavableDataset[T]):
    """Blend datasets by weight.

    ``BlendDataset((a, 2), (b, 1))`` yields two items of ``a`` for each of ``b``, evenly spread; a tuple of the pairs
    works as well. If the datasets yield batches, whole batches are blended. When a dataset ends, the others continue
    with their weights until all have ended.

    With ``size``, weights are shares of the volume. ``BlendDataset((a, 2), (b, 1), size=len)`` counts the sizes of the
    items that were yielded, and keeps the volumes of ``a`` and ``b`` at 2 to 1: :class:`~loader.order.VolumeBlend`
    states how exactly. A skipped item counts 0.

    Args:
        dataset_weights: Pairs of a dataset and its weight: above 0, in any unit.
        size: Returns the size of an item, a finite number of at least 0, which must be the same on all ranks; by
            default weights are shares of the items.
        unit: Name of the unit, by default the name of ``size``. A state fits only a blend with the same unit.
        schedule: Weights that change during the run, and replace the weights of the pairs; without ``size``, each item
            counts 1. If datasets end, and the remaining ones have weight 0, their next weights above 0 come at once;
            without such weights, the lane ends.
        worker_config: By default the first dataset's.

    Attributes:
        begin: Called with the lane and its state before the stage is opened.
        counts_sizes: Statistics have the sizes of items, which nothing else measures.
        counts_volumes: The items are those that hooks encoded, and have not skipped: statistics have the volumes.
        counts_samples: A schedule of this blend, or of one below, changes weights at samples of the run.
        edited_at: The micro-batch of the run before which its mix changed last; 0 if it never did. Lanes that had begun
            continue from a state only.
        edits: Number of changes of the mix in a restored run; volumes count from the last one on.
        origins: For each dataset, the number that identifies it in keys and states, and seeds its order: its place,
            unless the run was restored with other datasets.

    Raises:
        ConfigError: No dataset is given, a weight is not above 0, or the schedule is not one of these datasets.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> again = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> [sample.caption for sample in get_loader(BlendDataset((photos, 2), (again, 1)))]
    ['a cat', 'a cat', 'a dog', 'two cats', 'a dog', 'a bird', 'two cats', 'a bird']
    """

    origins: Sequence[int]
    edited_at: int = 0
    edits: int = 0
    counts_samples: bool = False
    begin: Callable[[Lane, State], None] | None = None

    def __init__(
        self,
        *dataset_weights: Any,
        size: Callable[[Any], Any] | None = None,
        unit: str | None = None,
        schedule: PlannedSchedule | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        datasets, weights = datasets_and_weights(dataset_weights)
        super().__init__(*datasets, worker_config=worker_config, name=name)
        self.weights = weights if schedule is None else schedule.weights[0]
        self.schedule = schedule
        # A schedule without a metric counts samples.
        if schedule is not None:
            _check_schedule(schedule, len(datasets))
            if size is None:
                size, unit = _one_item, "samples"
        self.counts_sizes = size is not None and size is not _one_item
        self.counts_samples = any(map(_counts_samples, datasets)) or (
            schedule is not None and schedule.unit == "samples"
        )
        self.counts_volumes = self.counts_sizes
        self.size = size
        self.unit = unit or (None if size is None else getattr(size, "__name__", type(size).__name__))
        self.origins = range(len(datasets))

    @property
    def dataset_weights(self) -> tuple[tuple[SavableDataset[T], float], ...]:
        """Pairs of a dataset and its weight."""
        return tuple(zip(self.inputs, self.weights, strict=True))

    @property
    def round_samples(self) -> int:
        first, weights = 0, self.weights
        if self.schedule is not None:  # the last stretch has no end
            first, weights = self.schedule.in_samples.starts[-1], self.schedule.weights[-1]
        return first + samples_of_round([upstream.round_samples for upstream in self.inputs], weights)

    @property
    def traits(self) -> StageTraits:
        return StageTraits(draws_random=self.size is not None, nests_states=True, ends="with_inputs")

    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"weights": list(self.weights)}
        settings |= {} if self.unit is None else {"unit": self.unit}
        return settings | ({} if self.schedule is None else {"schedule": self.schedule.settings()})

    def begin_on(self, ranks: int) -> None:
        if self.schedule is not None:
            self.schedule = replace(self.schedule, ranks=ranks)
        super().begin_on(ranks)

    @property
    def entry_schema(self) -> Schema:
        inner = {
            str(origin): NotRequired[saved_dict(**upstream.state_schema())]
            for origin, upstream in zip(self.origins, self.inputs, strict=True)
        }
        # In a restored run, datasets that had ended may be gone.
        ended: Schema = list[count_below(len(self.origins)) if isinstance(self.origins, range) else COUNT]  # type: ignore[misc]
        fields: dict[str, Schema] = {"next": COUNT}
        if self.size is not None:
            # A schedule may have been edited, added or removed since.
            stretch = saved_dict(number=COUNT, total=NUMBER, items=COUNT, targets=list[tuple[COUNT, NUMBER]])
            fields = {"total": NUMBER, "volumes": list[tuple[COUNT, COUNT, NUMBER, NUMBER]]}
            fields |= {"edits": NotRequired[COUNT], "stretch": NotRequired[stretch]}
        if self.counts_samples:
            fields["read"] = NotRequired[COUNT]
        return saved_dict(ended=NotRequired[ended], **fields, **inner)

    def open(self, lane: Lane, state: State) -> Running:
        # Begin what all inputs share: the reads of their samples, and the count of samples.
        if self.begin is not None:
            self.begin(lane, state)
        samples: LaneSamples | None = None
        if self.counts_samples and LaneSamples not in lane.shared:
            samples = LaneSamples.begin(lane, state.get(self.key, {}))
        # Choose by weights of samples, or by the volumes that are counted.
        counted = self.size is not None
        running: Running = VolumeBlendRunning(self, lane, state) if counted else BlendRunning(self, lane, state)
        # Lanes that had begun before the last change of the mix need the counts of their state.
        if self.key not in state and lane.number < self.edited_at:
            return RunningFunctions(_refuse_to_choose, running.state, running.load)
        return running if samples is None else counted_blend(running, self.key, samples)


def _check_schedule(schedule: PlannedSchedule, datasets: int) -> None:
    for start, row in zip(schedule.starts, schedule.weights, strict=False):
        if len(row) != datasets:
            raise ConfigError(f"expected schedules of {plural(datasets, 'dataset')}, found {len(row)}")
        if not (all(isfinite(weight) and weight >= 0 for weight in row) and any(row)):
            raise ConfigError(
                f"expected weights of at least 0, and one above 0, from each start on; found {list(row)} from {start} "
                f"{schedule.unit} on",
                hint="leave a stretch without weights out: the last weights continue",
            )
    # Products of large positions and weights may overflow, which the conversion to samples finds.
    try:
        _ = schedule.in_samples
    except ValueError as error:
        raise ConfigError(f"the schedule of a blend is invalid: {error}") from error


def _counts_samples(dataset: SavableDataset[Any]) -> bool:
    return getattr(dataset, "counts_samples", False) or any(map(_counts_samples, dataset.inputs))


def _one_item(item: Any) -> int:  # noqa: ARG001 - has the arguments of a metric
    return 1


def datasets_and_weights(pairs: Sequence[Any]) -> tuple[tuple[SavableDataset[Any], ...], tuple[float, ...]]:
    """Read ``(dataset, weight), …``, or one sequence of such pairs."""
    # The pairs may also be passed as one sequence.
    if len(pairs) == 1 and not (isinstance(pairs[0], Sequence) and _is_pair(pairs[0])):
        pairs = pairs[0] if isinstance(pairs[0], Sequence) else list(pairs)
    if not pairs or not all(isinstance(pair, Sequence) and _is_pair(pair) for pair in pairs):
        raise ConfigError(
            "expected datasets with their weights",
            hint="pass (dataset, weight), (dataset, weight), …; weights are numbers",
        )
    weights = tuple(float(weight) for _, weight in pairs)
    if not all(isfinite(weight) and weight > 0 for weight in weights):
        raise ConfigError(f"expected weights above 0, found {list(weights)}", hint="omit the datasets without weight")
    return tuple(dataset for dataset, _ in pairs), weights


def _is_pair(pair: Sequence[Any]) -> bool:
    return len(pair) == 2 and isinstance(pair[0], SavableDataset) and isinstance(pair[1], int | float | np.number)


class MixBatchDataset(MapDataset[T]):
    """Mix the items of datasets by weight within each batch.

    ``MixBatchDataset((a, 6), (b, 4), batch_size=10)`` yields batches with six items of ``a`` and four of ``b`` on
    average. The datasets should have ``batch_size=1``; otherwise whole batches are mixed.

    Args:
        dataset_weights: As in :class:`BlendDataset`.
        batch_size: Items of a batch.
        batch_mix_fn: Joins a list of items to a batch; by default returns the list. For items of one type, use
            :func:`~loader.samples.batching.concat.homogeneous_concat_mix`. May be a generator, or raise
            :class:`~loader.errors.SkipSample`.
        worker_config: By default the first dataset's.

    Raises:
        ConfigError: No dataset is given, a weight is not above 0, or the batch size is below 1.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> again = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> mix = MixBatchDataset((photos, 1), (again, 1), batch_size=4)
    >>> [len(batch) for batch in get_loader(mix)]
    [4, 4]
    """

    def __init__(
        self,
        *dataset_weights: Any,
        batch_size: int,
        batch_mix_fn: Callable[[list[Any]], Any] = list,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        blend: BlendDataset[Any] = BlendDataset(*dataset_weights, worker_config=worker_config)
        super().__init__(BatchDataset(blend, batch_size, list), batch_mix_fn, name=name)


def _refuse_to_choose() -> NoReturn:
    """Raise the error of a lane that had begun when the mix changed: it is opened to rebuild items only."""
    raise StateError(
        "the mix of this run changed, and its blends choose by what they counted: micro-batches between that "
        "change and the state, and those before, cannot be rebuilt",
        hint="use the folder of the loader's trace_dir, or a state from before that change with the documents of "
        "that time",
    )


_CHUNK = 256  # positions of the blend that are computed together


class BlendRunning:
    """Iterator of one lane."""

    def __init__(self, definition: BlendDataset[Any], lane: Lane, state: State) -> None:
        self._key = definition.key
        entry = state.get(self._key, {})
        self._upstreams = {
            origin: upstream.open(lane.child(origin, self._key), entry.get(str(origin), {}))
            for origin, upstream in zip(definition.origins, definition.inputs, strict=True)
        }
        self._lane = lane
        self._origins = np.array([*definition.origins])
        self._counts = quantise_weights(definition.weights)
        self._ended: list[int] = [origin for origin in entry.get("ended", []) if origin in self._upstreams]
        self._next: int = entry.get("next", 0)  # position in the blend of the datasets that have not ended
        self._plan()

    def _plan(self) -> None:
        counts = self._counts.copy()
        counts[np.isin(self._origins, self._ended)] = 0
        self._order = BlendOrder(counts, lane=self._lane.number, seed=self._lane.seed)
        self._next_origins: list[int] = []  # which dataset is next, from position _start on
        self._start = self._next

    def next(self) -> tuple[Any, ItemId]:
        while len(self._ended) < len(self._upstreams):
            origin = self._origin()
            try:
                value, item_id = self._upstreams[origin].next()
            except StopIteration:
                # The others continue with their weights, in a blend that begins at 0.
                self._ended.append(origin)
                self._next = 0
                self._plan()
                continue
            self._next += 1
            return value, (self._key, origin, item_id)
        raise StopIteration

    def _origin(self) -> int:
        row = self._next - self._start
        if row == len(self._next_origins):
            self._start = self._next
            self._next_origins = self._origins[self._order.locate(self._next, self._next + _CHUNK)[0]].tolist()
            row = 0
        return self._next_origins[row]

    def state(self) -> State:
        entry: State = {"next": self._next}
        if self._ended:
            entry["ended"] = list(self._ended)
        return {self._key: entry | {str(origin): upstream.state() for origin, upstream in self._upstreams.items()}}

    def load(self, item_id: ItemId) -> Any:
        _, origin, inner = item_id  # type: ignore[misc] # ids of a blend are tuples
        upstream = self._upstreams.get(origin)
        if upstream is None:
            note_lost_item(self._lane)
            return SKIPPED
        return upstream.load(inner)
