"""Apply a function to the iterator of items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NotRequired

from ...errors import SkipSample
from ...samples.hook_marks import restores_seeds
from ..contract.hook import activity_name, no_result
from ..contract.item_id import ItemId, sample_index_of
from ..contract.lane import BufferedItem, Lane, set_restore_key
from ..contract.rng import preserve_rng_state, seed_sample
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.state_schema import BUFFERED_ITEM, COUNT, saved_dict
from ..contract.worker_config import WorkerConfig, check_at_least
from ..measuring.item_sources import datasets_of
from ..measuring.recorder import register, skipped_items


class IterMapDataset(SavableDataset[T]):
    """Apply a function to the iterator of items.

    ``IterMapDataset([a, b, c, d], f)`` yields the items of ``f(iter([a, b, c, d]))``. The function may skip, split,
    join and reorder items.

    A state cannot hold the local variables of a function. By default the function therefore has to follow a rule:
    **when it takes an item after it has yielded some, it starts over**: later items do not depend on anything that it
    took before. A state has the ids of the items taken since the function last started over. After a restore they are
    rebuilt and passed to the function again, and the items that it had yielded for them are dropped.

    Functions that map, filter, split, or join every n items follow the rule; a running mean does not. For such
    functions pass ``restart_after=n``: the function is called for n items at a time, ``f(iter(first n)),
    f(iter(next n)), …``, and may keep any variables within a call. A state has the ids of up to n items, and so does
    the ``__restore_key__`` of an item.

    If the function raises, the items that it took since it last started over are skipped, and it is called again for
    the items that follow. A function that draws random numbers should be marked ``@stateless(restore_seeds=True)``.

    Args:
        dataset: The stage below.
        iter_map_fn: The function: takes an iterator, returns an iterator or is a generator.
        restart_after: Items of a call; None calls the function once for a pass.
        len_map_fn: Returns the number of items that the function yields for a number of items, for ``len()``; by
            default the same number.
        worker_config: By default the dataset's.
        stateless_iter_fn: Accepted for code written for megatron-energon, and ignored.
        iter_map_fn_config: As above.

    Raises:
        ConfigError: ``restart_after`` is below 1.

    >>> def neighbours(items):
    ...     return zip(items, items)
    """

    entry_schema = saved_dict(held=NotRequired[list[BUFFERED_ITEM]], given=NotRequired[COUNT], over=NotRequired[bool])
    traits = StageTraits(draws_random=True)

    def __init__(
        self,
        dataset: SavableDataset[Any],
        iter_map_fn: Callable[[Iterator[Any]], Iterable[T]],
        *,
        restart_after: int | None = None,
        len_map_fn: Callable[[int], int] | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        stateless_iter_fn: bool = False,  # noqa: ARG002 - accepted for code written for megatron-energon
        iter_map_fn_config: Any = None,  # noqa: ARG002 - accepted for code written for megatron-energon
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        check_at_least(1, "item", or_none=True, restart_after=restart_after)
        self.iter_map_fn = iter_map_fn
        self.restart_after = restart_after
        self.len_map_fn = len_map_fn

    def nominal_items(self, worker: int, workers: int) -> int:
        items = super().nominal_items(worker, workers)
        return items if self.len_map_fn is None else self.len_map_fn(items)

    def settings(self) -> dict[str, Any]:
        return {} if self.restart_after is None else {"restart_after": self.restart_after}

    def open(self, lane: Lane, state: State) -> Running:
        return _IterMapRunning(self, lane, state)


class _IterMapRunning:
    def __init__(self, definition: IterMapDataset[Any], lane: Lane, state: State) -> None:
        self._upstream = definition.inputs[0].open(lane, state)
        self._lane = lane
        self._function = definition.iter_map_fn
        self._isolates = restores_seeds(definition.iter_map_fn)
        self._restart_after = definition.restart_after
        self._key = definition.key
        self._stage = lane.path + definition.key
        # The state holds the inputs since the function was started last, and how many outputs it gave for them.
        entry = state.get(self._key, {})
        self._held = [BufferedItem.from_state(saved) for saved in entry.get("held", [])]  # inputs since the last start
        self._given: int = entry.get("given", 0)  # outputs since then
        self._is_over: bool = entry.get("over", False)
        self._next: Callable[..., Any] = next  # replaced while calls are timed
        register(lane, activity_name(definition.name, definition.iter_map_fn), self, "_next")
        # A restored stage starts the function again with the held inputs, before it reads new ones.
        self._replayed: deque[BufferedItem] = deque(self._held)
        self._peeked: list[tuple[Any, ItemId]] = []  # at most one item, for the next call
        self._skips = lane.failures.skips_of(definition.iter_map_fn)
        self._skipped = skipped_items(lane)
        self._repeats = definition.repeats
        self._items: Iterator[Any] | None = None
        self._source_ended = False
        self._source_error: Exception | None = None

    def next(self) -> tuple[Any, ItemId]:
        if self._is_over:
            raise StopIteration
        try:
            value = self._step()
        # The function cannot continue after an exception: the inputs since its start are skipped.
        except SkipSample:
            self._note_skipped()
            self._skips.add(len(self._held))
            return self._skip_held()
        except Exception as error:
            # An error of the stage below was raised through the function, which did not fail itself.
            if self._source_error is None:
                self._note_skipped()
                datasets = datasets_of(self._lane, self._item_id())
                self._lane.failures.failed(self._function, error, None, datasets=datasets)
            return self._skip_held()
        if value is _END:
            raise StopIteration
        if self._skips.count or self._lane.failures.pending:
            self._skips.count = 0
            self._lane.failures.succeeded(self._function, datasets_of(self._lane, self._item_id()))
        item_id = self._item_id()
        self._given += 1
        set_restore_key(value, self._stage, self._lane, item_id)
        return value, item_id

    def _item_id(self) -> tuple[Any, ...]:
        return (self._key, self._given, tuple([item.item_id for item in self._held]))

    def _step(self) -> Any:
        """Return the function's next item; ``_END`` after the last one."""
        while not self._is_over:
            if self._items is None:
                # A function that takes some items at a time is not called for none.
                if self._restart_after is not None and not self._has_input():
                    self._is_over = True
                    break
                self._items = self._call()
            item = self._advance(self._items, self._item_id())
            if self._source_error is not None:
                raise self._source_error  # the function may have caught it
            if item is not _END:
                return item
            self._end_call()
        return _END

    def _has_input(self) -> bool:
        """Return True if there is another item: the function is never called without one."""
        while not self._replayed and not self._peeked:
            try:
                taken = self._take()
            except StopIteration:
                return False
            except Exception as error:
                self._source_error = error
                raise
            if taken[0] is not SKIPPED:
                self._peeked.append(taken)
        return True

    def _call(self) -> Iterator[Any]:
        """Call the function; after a restore also drop the items that it had yielded."""
        given, self._given = self._given, 0  # 0, as when the function first took its inputs
        items: Iterator[Any] = iter(self._run(self._inputs()))
        for output in range(given):
            if self._advance(items, self._item_id()) is _END:
                self._given = given
                break
            self._given += 1
            if self._given <= output:  # it took a new input, so it gave fewer: the state is damaged, or it draws
                break
        if self._restart_after is None:
            # It had taken all of them, but may take fewer now if it draws random numbers.
            self._replayed.clear()
        return items

    def _run(self, inputs: Iterator[Any]) -> Any:
        outputs = self._function(inputs)
        if outputs is None:
            raise no_result(self._function)
        return outputs

    def _end_call(self) -> None:
        if self._restart_after is None:
            self._is_over = True
        else:
            deque(self._inputs(), maxlen=0)  # drops inputs that the function did not take
            if not self._given:
                self._note_skipped()
                self._skips.add(len(self._held))
        self._items = None
        self._start_over()

    def _note_skipped(self) -> None:
        for item in self._held:
            self._skipped.append(item.item_id)

    def _skip_held(self) -> tuple[Any, ItemId]:
        if self._source_error is not None:
            raise self._source_error
        item_ids = self._item_id()[2]
        self._is_over = self._source_ended
        self._items = None
        self._start_over()
        return SKIPPED, item_ids

    def _start_over(self) -> None:
        self._held.clear()
        self._peeked.clear()
        self._given = 0

    def _advance(self, items: Iterator[Any], item_id: ItemId) -> Any:
        """Run the function up to its next item; return ``_END`` after the last one."""
        if not self._isolates:
            return self._next(items, _END)
        with preserve_rng_state():
            self._seed(item_id)
            return self._next(items, _END)

    def _seed(self, item_id: ItemId) -> None:
        if self._isolates:
            seed_sample(self._lane.seed, self._lane.number, item_id)

    def _inputs(self) -> Iterator[Any]:
        # Give the function its inputs, up to the limit of a call; replayed ones come first.
        limit = self._restart_after
        while self._replayed or self._peeked or limit is None or len(self._held) < limit:
            try:
                value, item_id = self._take()
            except StopIteration:
                self._source_ended = True
                return
            except Exception as error:
                self._source_error = error
                raise
            if value is not SKIPPED:
                self._lane.context.sample_index = sample_index_of(item_id, self._lane.number, self._lane.count)
                self._seed(item_id)
                yield value

    def _take(self) -> tuple[Any, ItemId]:
        if self._peeked:
            return self._peeked.pop()
        if self._replayed:
            sample = self._replayed.popleft()
            return sample.value(self._upstream, self._lane), sample.item_id
        # By the rule of the stage, an input after an output starts over: earlier inputs are no longer needed.
        if self._given and self._restart_after is None:
            self._start_over()
        value, item_id = self._upstream.next()
        if value is not SKIPPED:
            self._held.append(BufferedItem(item_id, self._lane.context.batch_index))
            if len(self._held) % _MAX_HELD == 0 and self._repeats and self._restart_after is None:
                self._skips.add(_MAX_HELD)  # without end, a function that yields nothing takes items until memory ends
        return value, item_id

    def state(self) -> State:
        state = self._upstream.state()
        if self._is_over:
            state[self._key] = {"over": True}
        elif self._held or self._given:
            state[self._key] = {"held": [item.to_state() for item in self._held], "given": self._given}
        return state

    def load(self, item_id: ItemId) -> Any:
        _, output, item_ids = item_id  # type: ignore[misc] # ids of this stage are tuples
        items = iter(self._run(self._rebuild_inputs(item_ids)))
        item: Any = SKIPPED
        for each in range(output + 1):
            item = self._advance(items, (self._key, each, item_ids))
            if item is _END:
                return SKIPPED
        set_restore_key(item, self._stage, self._lane, item_id)
        return item

    def _rebuild_inputs(self, item_ids: tuple[ItemId, ...]) -> Iterator[Any]:
        for item_id in item_ids:
            value = self._upstream.load(item_id)
            if value is not SKIPPED:
                self._seed(item_id)
                yield value


_MAX_HELD = 1 << 16
"""Items that a function takes before its first item; it may fill a buffer, so this is more than a hook may skip."""

_END: Any = object()
