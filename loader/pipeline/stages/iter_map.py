"""One function applied to the stream of items as a whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ...errors import ConfigError, SkipSample
from ...samples.hooks import restores_seeds
from ..contract.buffered import BufferedItem
from ..contract.item import ItemId, position_of, set_restore_key
from ..contract.lane import Lane
from ..contract.rng import preserve_rng_state, seed_sample
from ..contract.stage import SKIPPED, Running, SavableDataset, State
from ..contract.worker_config import WorkerConfig

__all__ = ["IterMapDataset"]

T = TypeVar("T")


class IterMapDataset(SavableDataset[T]):
    """Give what a function makes of the iterator of items.

    ``IterMapDataset([a, b, c, d], f)`` gives ``f(iter([a, b, c, d]))``. The function may leave out, split, join and
    reorder items.

    No state can hold what goes on inside a function. So by default the function has to follow a rule: **when it takes
    an item after it has given some, it begins anew**: what it gives from then on depends on nothing that it took
    before. A state names the items taken since the function last began anew; after a restore they are made and given
    to the function again, and what it had given of them is thrown away. Functions that map, filter, split, or join
    every n items do that without a thought; one that keeps a running mean, say, does not. For such a one there is
    ``restart_after=n``: the function is called for n items at a time, ``f(iter(first n)), f(iter(next n)), …``, and
    may keep what it likes in between; a state names up to n items, and so does the ``__restore_key__`` of an item.

    Where the function raises, what it took since it began anew is left out, and it is called again for what follows.
    One that draws random numbers should be marked ``@stateless(restore_seeds=True)``.

    Args:
        dataset: What gives the items.
        iter_map_fn: The function: takes an iterator, gives an iterator or is a generator.
        restart_after: Items for which it is called at once; None calls it once for a pass.
        worker_config: By default the dataset's.

    Raises:
        ConfigError: ``restart_after`` is below 1.

    >>> def neighbours(items):
    ...     return zip(items, items)
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        iter_map_fn: Callable[[Iterator[Any]], Iterable[T]],
        *,
        restart_after: int | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        **_unused: Any,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        if restart_after is not None and restart_after < 1:
            raise ConfigError(f"expected restart_after of at least 1 item, or None, found {restart_after}")
        self.iter_map_fn = iter_map_fn
        self.restart_after = restart_after

    @property
    def runs_user_code(self) -> bool:
        return True

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
        own = state.get(self._key, {})
        self._held = [BufferedItem.of_state(one) for one in own.get("held", [])]  # taken since the function began anew
        self._given: int = own.get("given", 0)  # items since then
        self._is_over: bool = own.get("over", False)
        self._replayed: deque[BufferedItem] = deque(self._held)
        self._ahead: list[tuple[Any, ItemId]] = []  # at most one item, for the next call
        self._items: Iterator[Any] | None = None
        self._source_ended = False
        self._source_error: Exception | None = None

    def next(self) -> tuple[Any, ItemId]:
        if self._is_over:
            raise StopIteration
        try:
            value = self._step()
        except SkipSample:
            return self._left_out()
        except Exception as error:
            if self._source_error is None:
                self._lane.failures.failed(self._function, error, None)
            return self._left_out()
        if value is _END:
            raise StopIteration
        if self._lane.failures.pending:
            self._lane.failures.succeeded(self._function)
        item_id = self._item_id()
        self._given += 1
        set_restore_key(value, self._stage, self._lane, item_id)
        return value, item_id

    def _item_id(self) -> tuple[Any, ...]:
        return (self._key, self._given, tuple([one.item_id for one in self._held]))

    def _step(self) -> Any:
        """Give the function's next item; ``_END`` where there is none any more."""
        while not self._is_over:
            if self._items is None:
                if self._restart_after is not None and not self._look_ahead():
                    self._is_over = True
                    break
                self._items = self._called()
            item = self._resumed(self._items, self._item_id())
            if self._source_error is not None:
                raise self._source_error  # which the function may have caught
            if item is not _END:
                return item
            self._end_call()
        return _END

    def _look_ahead(self) -> bool:
        """Tell whether there is an item, so that the function is not called for none."""
        while not self._replayed and not self._ahead:
            try:
                taken = self._taken()
            except StopIteration:
                return False
            except Exception as error:
                self._source_error = error
                raise
            if taken[0] is not SKIPPED:
                self._ahead.append(taken)
        return True

    def _called(self) -> Iterator[Any]:
        """Call the function; after a restore also take from it what it had given."""
        given, self._given = self._given, 0  # as it was when the function took its items
        items = iter(self._function(self._inputs()))
        for _ in range(given):
            self._resumed(items, self._item_id())
            self._given += 1
        if self._restart_after is None:
            # It had taken all of them; a function that makes its choices by chance may not take all again.
            self._replayed.clear()
        return items

    def _end_call(self) -> None:
        """Make ready for the next call of a function that has come to its end."""
        if self._restart_after is None:
            self._is_over = True
        else:
            deque(self._inputs(), maxlen=0)  # a function need not take all that it may
        self._items = None
        self._begin_anew()

    def _left_out(self) -> tuple[Any, ItemId]:
        """Go on behind what the function failed for.

        Raises:
            Exception: What failed was a stage below, of which the function knows nothing.
        """
        if self._source_error is not None:
            raise self._source_error
        item_ids = self._item_id()[2]
        self._is_over = self._source_ended
        self._items = None
        self._begin_anew()
        return SKIPPED, item_ids

    def _begin_anew(self) -> None:
        self._held.clear()
        self._ahead.clear()
        self._given = 0

    def _resumed(self, items: Iterator[Any], item_id: ItemId) -> Any:
        """Let the function run up to its next item; ``_END`` at its end."""
        if not self._isolates:
            return next(items, _END)
        with preserve_rng_state():
            self._seed(item_id)
            return next(items, _END)

    def _seed(self, item_id: ItemId) -> None:
        if self._isolates:
            seed_sample(self._lane.seed, self._lane.number, item_id)

    def _inputs(self) -> Iterator[Any]:
        """Yield what the function takes in one call."""
        most = self._restart_after
        while self._replayed or self._ahead or most is None or len(self._held) < most:
            try:
                value, item_id = self._taken()
            except StopIteration:
                self._source_ended = True
                return
            except Exception as error:
                self._source_error = error
                raise
            if value is not SKIPPED:
                self._lane.context.sample_index = position_of(item_id) * self._lane.count + self._lane.number
                self._seed(item_id)
                yield value

    def _taken(self) -> tuple[Any, ItemId]:
        if self._ahead:
            return self._ahead.pop()
        if self._replayed:
            sample = self._replayed.popleft()
            return sample.value(self._upstream, self._lane), sample.item_id
        if self._given and self._restart_after is None:
            self._begin_anew()
        value, item_id = self._upstream.next()
        if value is not SKIPPED:
            self._held.append(BufferedItem(item_id, self._lane.context.batch_index))
        return value, item_id

    def state(self) -> State:
        state = self._upstream.state()
        if self._is_over:
            state[self._key] = {"over": True}
        elif self._held or self._given:
            state[self._key] = {"held": [one.to_state() for one in self._held], "given": self._given}
        return state

    def load(self, item_id: ItemId) -> Any:
        _, number, item_ids = item_id  # type: ignore[misc] # refs of this stage are tuples
        items = iter(self._function(self._inputs_again(item_ids)))
        item: Any = SKIPPED
        for each in range(number + 1):
            item = self._resumed(items, (self._key, each, item_ids))
        if item is _END:
            return SKIPPED
        set_restore_key(item, self._stage, self._lane, item_id)
        return item

    def _inputs_again(self, item_ids: tuple[ItemId, ...]) -> Iterator[Any]:
        for item_id in item_ids:
            value = self._upstream.load(item_id)
            if value is not SKIPPED:
                self._seed(item_id)
                yield value


_END: Any = object()
