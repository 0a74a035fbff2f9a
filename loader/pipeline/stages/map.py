"""One function applied to each item."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from types import GeneratorType
from typing import Any, TypeVar

from ..errors import SkipSample
from .hook import Hook
from .lane import Lane
from .randomness import kept_generators, seed_sample
from .ref import Ref, as_ref, plain
from .restore_key import stamp
from .stage import SKIPPED, Running, SavableDataset, State
from .worker_config import WorkerConfig

__all__ = ["MapDataset", "makes_several"]

T = TypeVar("T")


class MapDataset(SavableDataset[T]):
    """Apply a function to each item.

    ``MapDataset([a, b], f)`` gives ``f(a), f(b)``. The function may raise :class:`~loader.errors.SkipSample`, which
    leaves the item out, and may be a generator, whose items all follow in the item's place.

    Args:
        dataset: What gives the items.
        map_fn: The function; it must pickle where worker processes are spawned.
        name: What a printed chain calls the stage.
        worker_config: By default the dataset's.
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        map_fn: Callable[[Any], T | Generator[T, None, None]],
        *,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        **_unused: Any,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        self.map_fn = map_fn

    @property
    def keeps_positions(self) -> bool:
        return self.sources[0].keeps_positions and not makes_several(self.map_fn)

    @property
    def moves_below(self) -> bool:
        return True

    @property
    def runs_user_code(self) -> bool:
        return True

    def open(self, lane: Lane, state: State) -> Running:
        return _MapRunning(self, lane, state)


def makes_several(function: Callable[..., Any]) -> bool:
    """Say whether a function gives several items of each, as far as that is known before it is called."""
    return inspect.isgeneratorfunction(inspect.unwrap(function))


class _MapRunning:
    def __init__(self, definition: MapDataset[Any], lane: Lane, state: State) -> None:
        self._source = definition.sources[0].open(lane, state)
        self._hook = Hook(definition.map_fn, lane)
        self._lane = lane
        self._key = definition.key
        self._stage = lane.path + definition.key
        self._items: Iterator[Any] | None = None  # those of a generator that is not used up
        self._input: tuple[Any, Ref] = (None, -1)  # what it was called with
        self._taken = 0
        self._batch: int | None = None  # the micro-batch for which it was called
        self._replayed: tuple[Ref, Iterator[Any], int] | None = None  # the generator that the last load looked into
        if self._key in state:
            ref, self._taken, self._batch = state[self._key]
            self._input = (None, as_ref(ref))
            self._items = self._gone_on_with(as_ref(ref))

    def next(self) -> tuple[Any, Ref]:
        if self._items is not None:
            return self._next_of(self._items)
        value, ref = self._source.next()
        if value is SKIPPED:
            return value, ref
        result = self._hook.attempt(value, ref)
        if isinstance(result, GeneratorType):
            self._items, self._input, self._taken = result, (value, ref), 0
            self._batch = self._lane.context.batch_index
            return self._next_of(result)
        stamp(result, self._stage, self._lane, ref)
        return result, ref

    def _next_of(self, items: Iterator[Any]) -> tuple[Any, Ref]:
        value, ref = self._input
        item_ref = (self._key, self._taken, ref)
        try:
            item = self._hook.step(items, item_ref)
        except (StopIteration, SkipSample):
            self._items = None
            self._hook.ended(self._taken)
            return SKIPPED, ref
        except Exception as error:
            self._items = None
            return self._hook.failed(error, value), ref
        self._hook.succeeded(value)
        self._taken += 1
        stamp(item, self._stage, self._lane, item_ref)
        return item, item_ref

    def state(self) -> State:
        state = self._source.state()
        if self._items is not None:
            state[self._key] = [plain(self._input[1]), self._taken, self._batch]
        return state

    def load(self, ref: Ref) -> Any:
        if isinstance(ref, tuple) and ref[0] == self._key:
            result = self._item_again(ref)
        else:
            value = self._source.load(ref)
            result = value if value is SKIPPED else self._hook.call(value, ref)
        stamp(result, self._stage, self._lane, ref)
        return result

    def _item_again(self, ref: tuple[Any, ...]) -> Any:
        _, wanted, inner = ref
        items: Any
        if self._replayed is not None and self._replayed[0] == inner and self._replayed[2] <= wanted:
            _, items, taken = self._replayed
        else:
            value = self._source.load(inner)
            items = value if value is SKIPPED else self._hook.call(value, inner)
            if not isinstance(items, GeneratorType):
                return SKIPPED
            taken = 0
        item: Any = SKIPPED
        for number in range(taken, wanted + 1):
            item = self._hook.step(items, (self._key, number, inner))
        self._replayed = (inner, items, wanted + 1)
        return item

    def _gone_on_with(self, ref: Ref) -> Iterator[Any] | None:
        """Call the generator of an input again, as for the same micro-batch, and take the items that were taken."""
        context = self._lane.context
        now, context.batch_index = context.batch_index, self._batch
        try:
            with kept_generators():
                seed_sample(self._lane.seed, self._lane.number, ref)
                value = self._source.load(ref)
                items = value if value is SKIPPED else self._hook.call(value, ref)
                if not isinstance(items, GeneratorType):
                    return None
                for number in range(self._taken):
                    self._hook.step(items, (self._key, number, ref))
                return items
        except (SkipSample, StopIteration):
            return None
        except Exception as error:
            self._lane.restore_error_handler(error, None, ref)
            return None
        finally:
            context.batch_index = now
