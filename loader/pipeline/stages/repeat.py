"""Repeat a finite dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

from ...errors import ConfigError, RepeatedSampleError, plural
from ...escaped_log import get_logger
from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.rank_stage import RankInput, RankRunning, RankStage, rank_stage_below
from ..contract.rng import preserve_rng_state
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.state_schema import COUNT, Schema, saved_dict
from ..contract.worker_config import WorkerConfig
from ..failures.policy import FailurePolicy
from .epochize import EpochizeDataset

_PASSES_KNOWN = 16  # passes whose items statistics can attribute to sources: buffers hold no older ones


class RepeatDataset(SavableDataset[T]):
    """Repeat a dataset a number of times, or without end.

    ``RepeatDataset([a, b], repeats=2)`` yields ``a, b, a, b``. Each pass of a shuffled dataset has a different order.
    Above a virtual epoch or a limit, the virtual epoch or the limited pass is repeated.

    Each pass ends as one that is not repeated: at most one batch of a worker is short, or one of each group. If the
    number of batches is not known in advance, each worker finishes a pass before it begins the next.

    Args:
        dataset: The stage below.
        repeats: Number of passes; ``1.5`` adds half a pass, if the length of a pass is known. None: without end.
        restart: Accepted for scripts that pass it, and ignored: the iteration after the last pass always starts over.
        worker_config: By default the dataset's.

    Raises:
        ConfigError: ``repeats`` is below 0, or it is not whole and the length of a pass is not known.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> [sample.caption for sample in get_loader(RepeatDataset(photos, repeats=1.5))]
    ['a cat', 'a dog', 'two cats', 'a bird', 'a cat', 'a dog']
    """

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        dataset = arguments[0] if arguments else named.get("dataset")
        if cls is RepeatDataset and isinstance(dataset, SavableDataset) and rank_stage_below(dataset) is not None:
            return super().__new__(_RankRepeatDataset)  # type: ignore[return-value]
        return super().__new__(cls)

    def __init__(
        self,
        dataset: SavableDataset[T],
        *,
        repeats: float | None = None,
        restart: bool = True,  # noqa: ARG002 - documented to have no effect
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name="repeat")
        if repeats is not None and not 0 <= repeats < float("inf"):
            raise ConfigError(f"expected repeats of at least 0, or None, found {repeats}")
        if repeats is not None and repeats % 1 and not self._length_is_known(dataset):
            raise ConfigError(
                f"expected a whole number of repeats, found {repeats}: the length of a pass is not known in advance",
                hint="pass a whole number, or None to repeat without end",
            )
        self.times = repeats

    def _length_is_known(self, dataset: SavableDataset[T]) -> bool:
        return dataset.items is not None

    @property
    def traits(self) -> StageTraits:
        return StageTraits(
            one_to_one=self.times is not None,
            endless=True if self.times is None else None,
            starts_over=False if self.times is None else None,
            nests_states=True,
            ends="with_worker" if self.shares_passes else "alone",
        )

    @property
    def items(self) -> int | None:
        items = self.inputs[0].items
        return None if items is None or self.times is None else int(items * self.times)

    def nominal_items(self, worker: int, workers: int) -> int:
        return int(super().nominal_items(worker, workers) * (1 if self.times is None else self.times))

    def settings(self) -> dict[str, Any]:
        return {"repeats": self.times}

    @property
    def shares_passes(self) -> bool:
        """True if the lanes of a worker finish a pass together: items that they do not yield are in no lane's buffer.

        If the number of items is known, each lane knows when it has finished its share.
        """
        upstream = self.inputs[0]
        return upstream.items is None and upstream.drains_worker

    def lane_of(self, lane: Lane, pass_number: int) -> Lane:
        """Return the lane for a pass: with another seed, and rotated so that passes join without a gap."""
        child = lane.child(pass_number, self.key)
        lane.inputs[self.key].pop(pass_number - _PASSES_KNOWN, None)
        items = self.inputs[0].items
        child.shares_pass = self.shares_passes
        if items is None and not child.shares_pass:
            child.neighbours = None  # the lane ends alone
        child.number = (lane.number - pass_number * (items or 0)) % lane.count
        return child

    def share_of(self, lane: Lane, pass_number: int) -> int | None:
        """Return the number of items of a lane in pass ``pass_number``; None if it is not known."""
        items, times = self.inputs[0].items, self.times
        if times is not None and pass_number >= times:
            return 0
        if times is not None and pass_number + 1 > times:
            items = (self.items or 0) - int(times) * (items or 0)
        elif not items or lane.neighbours is None:
            return None
        return -(-(items - self.lane_of(lane, pass_number).number) // lane.count)  # they are dealt to the lanes in turn

    @property
    def entry_schema(self) -> Schema:
        return saved_dict(next=COUNT, taken=COUNT, source=saved_dict(**self.inputs[0].state_schema()))

    def open(self, lane: Lane, state: State) -> Running:
        return _RepeatRunning(self, lane, state)


class _RepeatRunning:
    def __init__(self, definition: RepeatDataset[Any], lane: Lane, state: State) -> None:
        self._definition = definition
        self._lane = lane
        self._key = definition.key
        entry = state.get(self._key, {"next": 0, "taken": 0, "source": {}})
        self._pass: int = entry["next"]
        self._taken: int = entry["taken"]  # items of the pass
        self._share = definition.share_of(lane, self._pass)  # items of the pass that the lane yields
        self._running = self._open(self._pass, entry["source"])
        self._joins = lane.neighbours is not None and definition.shares_passes
        # A finite number of passes ends anyway, and skipped items keep the places of others.
        self._counts_skipped = definition.times is not None or lane.failures.skip_tolerance is None
        worker_lanes = 1 + lane.neighbours.count if self._joins and lane.neighbours is not None else 1
        self._empty = EmptyPasses(
            lane.failures,
            lane=lane.number,
            first=self._pass,
            has_item=self._taken > 0,
            is_same=definition.inputs[0].items is None and _is_same_each_pass(definition.inputs[0]),
            joins=self._joins,
            parts=-(-lane.count // worker_lanes),
        )
        self._other: tuple[int, Running] | None = None  # another pass, which the last load opened
        if lane.neighbours is not None:
            lane.neighbours.add(lane.path, self)

    def _open(self, pass_number: int, state: State, *, alone: bool = False) -> Running:
        lane = self._definition.lane_of(self._lane, pass_number)
        return self._definition.inputs[0].open(lane.alone() if alone else lane, state)

    def next(self) -> tuple[Any, ItemId]:
        # The lane ends after so many empty passes that it will not have an item.
        while not (self._empty.count and (self._definition.inputs[0].items == 0 or self._empty.are_final)):
            if self._share is not None and self._taken >= self._share:
                if self._is_last():
                    raise StopIteration
                self._next_pass()
                continue
            try:
                value, item_id = self._running.next()
            except StopIteration:
                pass_number = self._pass
                self._next_pass()
                if self._joins:
                    self._lead(pass_number)
                continue
            self._taken += 1
            if value is not SKIPPED or self._counts_skipped:
                self._empty.count, self._empty.last_kept = 0, self._pass
            return value, (self._key, self._pass, item_id)
        self._empty.check_dropped()
        raise StopIteration

    def _is_last(self) -> bool:
        times = self._definition.times
        return times is not None and self._pass + 1 > times

    def _next_pass(self) -> None:
        self._empty.note_end(self._pass)
        self._taken = 0
        self._pass += 1
        while (share := self._definition.share_of(self._lane, self._pass)) == 0 and not self._is_last():
            self._pass += 1
        self._share = share
        self._running = self._open(self._pass, {})

    def reach(self, pass_number: int) -> None:
        """Continue with a later pass for another lane, unless this lane has a share left in an earlier one."""
        while (
            self._pass < pass_number and self._share is not None and self._taken >= self._share and not self._is_last()
        ):
            self._next_pass()

    def _lead(self, pass_number: int) -> None:
        if self._lane.neighbours is not None:
            others = list(self._lane.neighbours.others(self._lane.path))
            self._empty.join(pass_number, (other.last_kept for other in others))
            for other in others:
                other.leave(pass_number, self._empty.count)

    @property
    def last_kept(self) -> int:
        """The last pass that gave the lane an item; the pass before its first one if no pass did."""
        return self._empty.last_kept

    def leave(self, pass_number: int, empty: int) -> None:
        """Leave pass ``pass_number``, in which no lane has items for a batch.

        Args:
            empty: Consecutive passes without an item.
        """
        if self._pass != pass_number or self._has_items():
            return
        self._next_pass()
        self._empty.count = empty
        if self._lane.neighbours is not None:
            self._lane.neighbours.note_change()

    def _has_items(self) -> bool:
        """Return True if the lane itself has items left: a generator above the batches may have some.

        In a resumed run, the lane may also have arrived at the pass after the others asked it for items.
        """
        copied = self._open(self._pass, self._running.state(), alone=True)
        with preserve_rng_state():
            try:
                while copied.next()[0] is SKIPPED:
                    pass
            except StopIteration:
                return False
        return True

    def state(self) -> State:
        return {self._key: {"next": self._pass, "taken": self._taken, "source": self._running.state()}}

    def load(self, item_id: ItemId) -> Any:
        _, pass_number, inner = item_id  # type: ignore[misc] # ids of this stage are tuples
        if pass_number == self._pass:
            return self._running.load(inner)
        if self._other is None or self._other[0] != pass_number:
            self._other = (pass_number, self._open(pass_number, {}, alone=True))
        return self._other[1].load(inner)


def _is_same_each_pass(dataset: SavableDataset[Any]) -> bool:
    """Return True if a lane has the same samples in each pass, as in validation, and not other ones by a shuffle."""
    return all(map(_is_same_each_pass, dataset.inputs)) if dataset.inputs else dataset.starts_over


class _RankRepeatDataset(RepeatDataset[Any], RankStage):
    """Repeat above a stage that counts on the rank."""

    def _length_is_known(self, dataset: SavableDataset[Any]) -> bool:  # noqa: ARG002 - no length is known here
        return False

    @property
    def items(self) -> int | None:
        return None

    def __len__(self) -> int:
        below = rank_stage_below(self.inputs[0])
        return (0 if below is None else len(below)) * (1 if self.times is None else int(self.times))

    @property
    def repeats_input(self) -> bool:
        return self.times is None

    def open(self, lane: Lane, state: State) -> Running:
        return RankStage.open(self, lane, state)

    def on_rank(self, upstream: RankInput, count: int) -> RankRunning:
        below = rank_stage_below(self.inputs[0])
        if isinstance(below, EpochizeDataset) and getattr(upstream, "count", 0) >= below.length:
            count += 1  # the state was saved at the very end of a virtual epoch, so that pass is complete
        return super().on_rank(upstream, count)

    def iterate(self, running: RankRunning) -> Iterator[Any]:
        # `running.count` is the number of complete passes.
        # The first pass is empty if the state was saved at its very end. A second empty pass means that there is no
        # data at all.
        empty = 0
        while empty < 2 and (self.times is None or running.count < self.times):
            empty += 1
            for batch in running.upstream.batches():
                empty = 0
                yield batch
            running.count += 1
            if self.inputs[0].starts_over:
                running.upstream.start_over()
        running.count = 0


_log = get_logger(__name__)

_MAX_EMPTY = 20
"""Consecutive empty passes after which a lane ends, for each part of a pass of which a worker has one. A dataset with
fewer samples than lanes deals them to other lanes in each pass, so some empty passes are normal. A lane that has one
item in an average pass ends by chance with a probability of 2e-9."""


@dataclass(eq=False)
class EmptyPasses:
    """The consecutive passes of a lane without an item.

    Args:
        failures: The lane's policy, which counts the samples that hooks and filters drop.
        lane: Number of the lane.
        first: The pass in which the lane begins.
        has_item: The lane had items of this pass before its state was saved.
        is_same: The lane has the same samples in each pass, as in validation, and not other ones by a shuffle.
        joins: The lanes of the worker finish each pass together, so that others may take all items of this one.
        parts: Number of parts of a pass; the worker has one of them.

    Attributes:
        count: Number of the empty passes, of all lanes of the worker if they finish passes together.
        last_kept: The last pass that gave the lane an item; the pass before its first one if no pass did.
    """

    failures: FailurePolicy
    _: KW_ONLY
    lane: int
    first: int = 0
    has_item: bool = False
    is_same: bool = False
    joins: bool = False
    parts: int = 1
    count: int = field(default=0, init=False)
    last_kept: int = field(init=False)
    _dropped: int = field(default=0, init=False)  # samples that were dropped before the first of these passes

    def __post_init__(self) -> None:
        self.last_kept = self.first if self.has_item else self.first - 1

    def note_end(self, pass_number: int) -> None:
        if self.last_kept < pass_number:
            self.count += 1
        else:
            self._dropped = self.failures.dropped.total()

    def join(self, pass_number: int, others: Iterable[int]) -> None:
        """Count the passes up to ``pass_number`` that were empty in all lanes of the worker."""
        self.count = pass_number - max([self.last_kept, *others])

    @property
    def are_final(self) -> bool:
        """True after so many empty passes that the lane will not have another item."""
        failures = self.failures
        if self.is_same:
            # Before a restore, other lanes may have taken all items of this one in the pass in which it begins.
            return self.count >= (_MAX_EMPTY if failures.dropped or failures.remainder else 1 + self.joins)
        # All samples were dropped as often as a pass has them on average.
        if 0 < _MAX_EMPTY * failures.samples <= failures.dropped.total() - self._dropped and self.count >= _MAX_EMPTY:
            return True
        return self.count >= _MAX_EMPTY * self.parts

    def check_dropped(self) -> None:
        """Check that the lane ends because it has no samples, and not because all of them are dropped.

        Raises:
            RepeatedSampleError: All samples of many passes were dropped, and not only those that the lane always has.
        """
        failures = self.failures
        reasons = failures.remainder or failures.reasons()
        if failures.skip_tolerance is None or not reasons:
            return
        if self.is_same and self.last_kept < self.first:
            _log.warning("lane %d has no sample of a pass that is repeated: %s", self.lane, reasons)
            return
        raise RepeatedSampleError(
            f"a repeated dataset has no item in lane {self.lane} after "
            f"{plural(self.count, 'pass', 'passes')}: {reasons}",
            hint="check these hooks and filters, and pass a batch_size that a pass can fill, or drop_last=False; to "
            "allow such passes, pass WorkerConfig(skip_tolerance=None)",
        )
