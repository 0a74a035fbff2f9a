"""Apply a function to each item."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from types import GeneratorType
from typing import Any

from ...errors import SkipSample, StateError
from ...samples.types import Sample
from ..contract.hook import Hook, MissingItemError, makes_several
from ..contract.item_id import ItemId, as_item_id, integers_of, plain_item_id
from ..contract.lane import Lane, lost_items, set_restore_key
from ..contract.rng import preserve_rng_state, seed_sample
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.state_schema import COUNT, ITEM_ID
from ..contract.worker_config import WorkerConfig


class MapDataset(SavableDataset[T]):
    """Apply a function to each item.

    ``MapDataset([a, b], f)`` yields ``f(a), f(b)``. The function may raise :class:`~loader.errors.SkipSample` to skip
    the item, and may be a generator, whose items replace the item.

    Args:
        dataset: The stage below.
        map_fn: The function; it must pickle if worker processes are spawned.
        failure_tolerance: Consecutive failures that end the run; by default the number set for the function, or 100.
        name: Name of the stage in a printed chain.
        worker_config: By default the dataset's.
        stateless_map_fn: Accepted for code written for megatron-energon, and ignored.
        map_fn_config: As above.

    >>> photos = get_dataset_from_config("photos", split_part="train", training=False).build()
    >>> list(get_loader(MapDataset(photos, lambda sample: sample.caption.upper())))
    ['A CAT', 'A DOG', 'TWO CATS', 'A BIRD']
    """

    entry_schema = tuple[ITEM_ID, COUNT, COUNT | None]

    def __init__(
        self,
        dataset: SavableDataset[Any],
        map_fn: Callable[[Any], T | Generator[T, None, None]],
        *,
        failure_tolerance: int | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        stateless_map_fn: bool = False,  # noqa: ARG002 - accepted for code written for megatron-energon
        map_fn_config: Any = None,  # noqa: ARG002 - accepted for code written for megatron-energon
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        self.map_fn = map_fn
        self.makes_several = makes_several(map_fn)
        self.failure_tolerance = failure_tolerance
        self.takes_batches = False  # the items are micro-batches
        self.size_metrics: Mapping[str, Callable[[Any], float]] = {}  # of its results, for statistics

    @property
    def traits(self) -> StageTraits:
        is_one = not self.makes_several
        return StageTraits(one_to_one=is_one, never_more=is_one, commutes=True, draws_random=True, ends="with_inputs")

    def open(self, lane: Lane, state: State) -> Running:
        return _MapRunning(self, lane, state)


class _MapRunning:
    def __init__(self, definition: MapDataset[Any], lane: Lane, state: State) -> None:
        self._upstream = definition.inputs[0].open(lane, state)
        self._hook = Hook(
            definition.map_fn,
            lane,
            failure_tolerance=definition.failure_tolerance,
            takes_batches=definition.takes_batches,
            stage=definition.name,
            result_sizes=definition.size_metrics,
        )
        self._read, self._attempt = self._upstream.next, self._hook.attempt
        self._lane, self._number, self._context = lane, lane.number, lane.context
        self._key = definition.key
        self._stage = lane.path + definition.key
        self._sample_class: type[Any] | None = None  # of the last result, if its restore key is set as an attribute
        self._items: Iterator[Any] | None = None  # a generator that is not exhausted
        self._input: tuple[Any, ItemId] = (None, -1)  # the generator's argument and its id
        self._taken = 0  # items taken from the generator
        self._batch: int | None = None  # the micro-batch during which the generator was created
        # The generator of the last load: its argument's id, its position, its argument, and True if parts of that are
        # of datasets that left the mix.
        self._replayed: tuple[ItemId, Iterator[Any], int, Any, bool] | None = None
        if self._key in state:
            item_id, self._taken, self._batch = state[self._key]
            self._input = (None, as_item_id(item_id))
            self._items = self._resume_generator(as_item_id(item_id))

    def next(self) -> tuple[Any, ItemId]:
        # The items of a generator come before the next input.
        if self._items is not None:
            return self._next_of(self._items)
        value, item_id = self._read()
        if value is SKIPPED:
            return value, item_id
        result = self._attempt(value, item_id)
        kind = type(result)
        if kind is self._sample_class:  # most results: set_restore_key, without the call
            result.__restore_key__ = self._stage, self._number, self._context.batch_index, item_id
            return result, item_id
        if kind is GeneratorType:
            self._items, self._input, self._taken = result, (value, item_id), 0
            self._batch = self._lane.context.batch_index
            return self._next_of(result)
        set_restore_key(result, self._stage, self._lane, item_id)
        # The next results mostly have the same class, which the short path above then recognises.
        if isinstance(result, Sample):
            self._sample_class = kind
        return result, item_id

    def _next_of(self, items: Iterator[Any]) -> tuple[Any, ItemId]:
        value, item_id = self._input
        own_id = (self._key, self._taken, item_id)
        try:
            item = self._hook.step(items, own_id)
        except (StopIteration, SkipSample):
            self._items = None
            self._hook.ended(self._taken, item_id)
            return SKIPPED, item_id
        except Exception as error:
            self._items = None
            return self._hook.failed(error, value, item_id), item_id
        self._hook.succeeded(value, item_id)
        self._taken += 1
        set_restore_key(item, self._stage, self._lane, own_id)
        return item, own_id

    def state(self) -> State:
        state = self._upstream.state()
        if self._items is not None:
            state[self._key] = [plain_item_id(self._input[1]), self._taken, self._batch]
        return state

    def load(self, item_id: ItemId) -> Any:
        if isinstance(item_id, tuple) and item_id[:1] == (self._key,):
            result = self._rebuild_generated(item_id)
        else:
            value = self._upstream.load(item_id)
            with self._hook.rebuilding(value):
                result = value if value is SKIPPED else self._hook.call(value, item_id)
                if isinstance(result, GeneratorType):
                    raise StateError(
                        f"{self._hook.name} is a generator, which may yield several samples; the key names none of them"
                    )
        set_restore_key(result, self._stage, self._lane, item_id)
        return result

    def _rebuild_generated(self, item_id: tuple[Any, ...]) -> Any:
        _, wanted, inner = item_id
        items: Any
        # Buffers hold items of one generator in ascending order: continue the generator that was replayed last.
        if self._replayed is not None and self._replayed[0] == inner and self._replayed[2] <= wanted:
            _, items, taken, value, lacks_parts = self._replayed
        else:
            # If a dataset left the mix, the input lacks parts, and the generator may yield fewer items than before.
            lost = lost_items(self._lane)
            value, taken = self._upstream.load(inner), 0
            lacks_parts = lost_items(self._lane) > lost
            with self._hook.rebuilding(value):
                items = value if value is SKIPPED else self._hook.call(value, inner)
            if not isinstance(items, GeneratorType):
                return SKIPPED
        with self._hook.rebuilding(value):
            try:
                item = self._hook.item_at(items, self._key, wanted, inner, taken=taken)
            except MissingItemError:
                self._replayed = None
                if not lacks_parts:
                    raise
                return SKIPPED
        self._replayed = (inner, items, wanted + 1, value, lacks_parts)
        return item

    def _resume_generator(self, item_id: ItemId) -> Iterator[Any] | None:
        """Create the generator of an input again, for the same micro-batch, and drop the items that were taken."""
        context = self._lane.context
        current, context.batch_index = context.batch_index, self._batch
        try:
            # Load and map the input with the seeds of the first time.
            parts = (self._lane.seed, self._lane.number, *integers_of(item_id))
            with preserve_rng_state(), context.seeded_rng(*parts):
                seed_sample(self._lane.seed, self._lane.number, item_id)
                value = self._upstream.load(item_id)
                with self._hook.rebuilding(value):
                    items = value if value is SKIPPED else self._hook.call(value, item_id)
                    if not isinstance(items, GeneratorType):
                        return None
                    # Drop the items that were yielded before the state was saved.
                    for item_number in range(self._taken):
                        self._hook.step(items, (self._key, item_number, item_id))
                return items
        except (SkipSample, StopIteration):
            return None
        except Exception as error:
            if isinstance(error, StateError):
                error.at = error.at or f"lane {self._lane.number} of the state: {self._key}"
            self._lane.failures.failed_to_rebuild(error)
            return None
        finally:
            context.batch_index = current
