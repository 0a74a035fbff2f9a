"""Call functions of the user: seed them if they request it, count their failures, and consume their generators."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import GeneratorType, MethodType
from typing import Any

from ...errors import ConfigError, SkipSample, StateError
from ...order import mix
from ...samples.hook_marks import restores_encoder_seeds, restores_seeds
from ..failures.policy import hook_name, stage_and_hook
from ..measuring.item_sources import datasets_of
from ..measuring.recorder import register, skipped_items
from .item_id import ItemId, integers_of, sample_index_of, samples_in
from .lane import BufferedItem, Lane, LaneInput, set_restore_key
from .rng import preserve_rng_state, seed_sample
from .running import SKIPPED, State

_HINT = "keys and states fit only the dataset and the hooks that made them"


class MissingItemError(StateError):
    """A generator has fewer items than an id names."""


class Hook:
    """A user's function, called for the items of one lane.

    Args:
        function: The function.
        lane: The lane.
        failure_tolerance: Consecutive failures that end the run; None: the number set for the function.
        takes_batches: The items are micro-batches: ``current_sample_index`` is the number of the micro-batch.
        stage: The name of the stage, for messages.
        may_return_none: None is a result like others; by default an error, since most such functions lack a ``return``.
        sizes: Metrics of the samples in the list that is the function's argument, by unit, for statistics.
        result_sizes: Metrics of the function's result, by name.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        lane: Lane,
        *,
        failure_tolerance: int | None = None,
        takes_batches: bool = False,
        may_return_none: bool = False,
        stage: str = "",
        sizes: Mapping[str, Callable[[Any], Any]] | None = None,
        result_sizes: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self._function = function
        # To call an object's method takes half the time of a call of the object.
        # These two, and _isolates, are replaced while calls are timed.
        method = getattr(function, "__call__", None)  # noqa: B004 - it is called
        self._call = method if isinstance(method, MethodType) else function
        self._next: Callable[[Iterator[Any]], Any] = next
        self._may_return_none = may_return_none
        self._takes_batches = takes_batches
        self._tolerance = failure_tolerance
        # A function that dispatches to others names the one for a sample: failures are counted for each separately.
        self._choose_function: Callable[[Any], Callable[..., Any]] | None = getattr(function, "function_for", None)
        self._number, self._lanes, self._context, self._failures = lane.number, lane.count, lane.context, lane.failures
        self._last_sample, self._root_number = lane.last_sample, lane.root_number
        self._lane = lane
        self._isolates_global = restores_seeds(function)
        self._isolates_rng = restores_encoder_seeds(function)
        self._isolates = self._isolates_global or self._isolates_rng
        # Two hooks of a chain draw different numbers for the same sample.
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self._seed = int(mix(lane.seed, zlib.crc32(name.encode())))
        self.name = stage_and_hook(stage, function)
        self.skips = lane.failures.skips_of(function, self.name)
        self._skipped = skipped_items(lane)
        activity = activity_name(stage, function)
        self.item_id: ItemId = ()  # of the items that are measured, while the function is called
        register(lane, activity, self, "_call", sizes=sizes, result_sizes=result_sizes, noting="_isolates")
        if makes_several(function):
            register(lane, activity, self, "_next")

    def call(self, argument: Any, item_id: ItemId) -> Any:
        """Call the function.

        Args:
            argument: The function's argument.
            item_id: The argument's id.

        Raises:
            ConfigError: It returned None.
            Exception: Any error of the function.
        """
        if type(item_id) is int:
            self._context.sample_index = item_id * self._lanes + self._number
        else:
            self._note(item_id)
        result = self._isolated(self._call, argument, item_id) if self._isolates else self._call(argument)
        if result is None and not self._may_return_none:
            raise no_result(self._function_for(argument))
        return result

    def _note(self, item_id: ItemId) -> None:
        self.item_id = item_id
        if isinstance(item_id, tuple) and len(item_id) > 1 and not isinstance(item_id[0], str):
            self._last_sample.note_hook(self._root_number)
        index = self._context.batch_index if self._takes_batches else None
        if index is None:
            index = sample_index_of(item_id, self._number, self._lanes)
        self._context.sample_index = index

    def _isolated(self, function: Callable[[Any], Any], argument: Any, item_id: ItemId) -> Any:
        """Call a function with generators that are seeded for an item, and note the item's id for statistics."""
        self.item_id = item_id
        if not self._isolates_rng:
            return self._seeded(function, argument, item_id) if self._isolates_global else function(argument)
        with self._context.seeded_rng(self._seed, self._number, *integers_of(item_id)):
            return self._seeded(function, argument, item_id) if self._isolates_global else function(argument)

    def _seeded(self, function: Callable[[Any], Any], argument: Any, item_id: ItemId) -> Any:
        with preserve_rng_state(numpy_gauss=False):
            seed_sample(self._seed, self._number, item_id)
            return function(argument)

    def step(self, items: Iterator[Any], item_id: ItemId) -> Any:
        """Return the next item of a generator that :meth:`call` returned.

        Args:
            items: The generator.
            item_id: The next item's id.

        Raises:
            ConfigError: The item is None.
            Exception: Any error of the generator; StopIteration at its end.
        """
        if not self._takes_batches:
            self._note(item_id)  # other hooks have run since the last item
        item = self._isolated(self._next, items, item_id) if self._isolates else self._next(items)
        if item is None:
            name = hook_name(self._function)
            raise ConfigError(f"{name} yielded None; did you forget the value after `yield`?")
        return item

    def attempt(self, argument: Any, item_id: ItemId) -> Any:
        """Call the function; return :data:`SKIPPED` if it raises SkipSample, or an error that is tolerated.

        Raises:
            Exception: The error ends the run, or so many samples were skipped that it never would.
        """
        # What call() does, without the call: this runs for every sample, and most ids are integers.
        try:
            if type(item_id) is int:
                self._context.sample_index = item_id * self._lanes + self._number
            else:
                self._note(item_id)
            result = self._isolated(self._call, argument, item_id) if self._isolates else self._call(argument)
            if result is None and not self._may_return_none:
                raise no_result(self._function_for(argument))  # noqa: TRY301 - an error of the hook, as others are
        except SkipSample:
            self.note_skipped(item_id)
            self.skips.add(samples_in(item_id))
            return SKIPPED
        except Exception as error:
            return self.failed(error, argument, item_id)
        # That a generator was created is no success: its body has not begun.
        if (self.skips.count or self._failures.pending) and not isinstance(result, GeneratorType):
            self.succeeded(argument, item_id)
            self.skips.count = 0
        return result

    def items(self, argument: Any, key: str, item_id: ItemId) -> Iterator[tuple[Any, ItemId]]:
        """Call the function, and yield its result or the items of its generator; nothing if it skips the sample.

        Args:
            argument: The function's argument.
            key: Key of the stage, for the ids ``(key, k, item_id)`` of a generator's items.
            item_id: The argument's id, which is also the id of a single result.
        """
        # A plain result is one item, with the id of its input.
        result = self.attempt(argument, item_id)
        if result is SKIPPED:
            return
        if not isinstance(result, GeneratorType):
            yield result, item_id
            return
        # A generator yields several: each has the id of the input and its index in the generator.
        index = 0
        while True:
            own_id = (key, index, item_id)
            try:
                item = self.step(result, own_id)
            except (StopIteration, SkipSample):
                self.ended(index, item_id)
                return
            except Exception as error:
                self.failed(error, argument, item_id)
                return
            self.succeeded(argument, item_id)
            yield item, own_id
            index += 1

    def rebuild_item(self, argument: Any, key: str, index: int, item_id: ItemId) -> Any:
        """Rebuild the ``index``-th item that :meth:`items` yielded for an argument.

        Raises:
            StateError: It yields fewer items.
            Exception: Any error of the function.
        """
        with self.rebuilding(argument):
            result = self.call(argument, item_id)
            return self.item_at(result, key, index, item_id) if isinstance(result, GeneratorType) else result

    def item_at(self, items: Iterator[Any], key: str, index: int, item_id: ItemId, *, taken: int = 0) -> Any:
        """Return the ``index``-th item of a generator from which ``taken`` items were taken.

        Raises:
            MissingItemError: The generator has fewer items.
            Exception: Any error of the generator.
        """
        item: Any = SKIPPED
        for each in range(taken, index + 1):
            try:
                item = self.step(items, (key, each, item_id))
            except StopIteration:
                raise MissingItemError(
                    f"expected an item {index} of {self.name}, which yields {each} for this sample", hint=_HINT
                ) from None
        return item

    @contextmanager
    def rebuilding(self, argument: Any) -> Iterator[None]:
        """Note the argument of a call that rebuilds a sample, so that the handler of a failure receives it."""
        try:
            yield
        except Exception as error:
            self._failures.note_rebuilt(error, self._function_for(argument), argument)
            raise

    def note_skipped(self, item_id: ItemId) -> None:
        """Note an item that is skipped, for the statistics of its source."""
        self._skipped.append(item_id)

    def failed(self, error: Exception, argument: Any, item_id: ItemId) -> Any:
        """Count a failure and the samples of the item; return :data:`SKIPPED` if it is tolerated.

        Raises:
            Exception: The failure ends the run.
        """
        self.note_skipped(item_id)
        self._failures.failed(
            self._function_for(argument),
            error,
            argument,
            datasets=datasets_of(self._lane, item_id),
            tolerance=self._tolerance,
            samples=samples_in(item_id),
        )
        return SKIPPED

    def ended(self, items: int, item_id: ItemId) -> None:
        """Count an exhausted generator that yielded ``items``; one without items has skipped its argument."""
        if items:
            self.skips.count = 0
        else:
            self.note_skipped(item_id)
            self.skips.add(samples_in(item_id))

    def succeeded(self, argument: Any, item_id: ItemId) -> None:
        """Count a success of the function for an argument, whose id is ``item_id``.

        Call it before ``skips.count`` is set to 0: the first success is counted in any case.
        """
        if self.skips.count or self._failures.pending:
            self._failures.succeeded(self._function_for(argument), datasets_of(self._lane, item_id))

    def _function_for(self, argument: Any) -> Callable[..., Any]:
        return self._function if self._choose_function is None else self._choose_function(argument)


class BatchHook(Hook):
    """A function that joins items to micro-batches, which can be rebuilt from their ids.

    Args:
        function: The function.
        lane: The lane.
        upstream: Rebuilds single items: the input of the stage.
        path: Path and key of the stage.
        options: The other arguments of :class:`Hook`.
    """

    def __init__(self, function: Callable[..., Any], lane: Lane, upstream: Any, path: str, **options: Any) -> None:
        super().__init__(function, lane, takes_batches=True, **options)
        self._path = path
        self.upstream = upstream

    @classmethod
    def opened(cls, definition: Any, lane: Lane, state: State, *, stage: str) -> BatchHook:
        """Open the input of a stage that joins items by its ``batcher``, and return this function.

        Args:
            definition: The stage.
            lane: The lane.
            state: The lane's state, from which the input is opened.
            stage: The name of the function's stage, for messages.
        """
        path = lane.path + definition.key
        upstream = LaneInput(definition.inputs[0], lane, state, path)
        tolerance, sizes = definition.failure_tolerance, definition.size_metrics
        return cls(definition.batcher, lane, upstream, path, failure_tolerance=tolerance, stage=stage, sizes=sizes)

    def make(self, values: list[Any], item_ids: tuple[ItemId, ...]) -> tuple[Any, ItemId]:
        """Return the micro-batch of some items and its id; :data:`.SKIPPED` if there is none."""
        if not values:
            return SKIPPED, item_ids
        batch = self.attempt(values, item_ids)
        set_restore_key(batch, self._path, self._lane, item_ids)
        return batch, item_ids

    def join(self, items: Iterable[BufferedItem]) -> tuple[Any, ItemId]:
        """Return the micro-batch of items that waited in a buffer, and its id, as :meth:`make` does."""
        made = [(item.value(self.upstream, self._lane), item.item_id) for item in items]
        made = [(value, item_id) for value, item_id in made if value is not SKIPPED]
        return self.make([value for value, _ in made], tuple([item_id for _, item_id in made]))

    def load(self, item_id: ItemId) -> Any:
        """Rebuild the micro-batch of an id; :data:`.SKIPPED` if none of its items is left."""
        loaded = [self.upstream.load(inner) for inner in item_id] if isinstance(item_id, tuple) else []
        values = [value for value in loaded if value is not SKIPPED]
        if not values:
            return SKIPPED
        batch = self.call(values, item_id)
        set_restore_key(batch, self._path, self._lane, item_id)
        return batch


def activity_name(stage: str, function: Callable[..., Any]) -> str:
    """Return the name of a hook in statistics: its stage's, or the function's if the stage has only a default name.

    >>> activity_name("encode_sample", print), activity_name("MapDataset", print)
    ('encode_sample', 'print')
    """
    return hook_name(function) if not stage or stage[0].isupper() else stage


def makes_several(function: Callable[..., Any]) -> bool:
    """Return True if a function is a generator function, as far as that is known before the call.

    A function that calls others declares it by an attribute.
    """
    return getattr(function, "makes_several", False) or inspect.isgeneratorfunction(inspect.unwrap(function))


def no_result(function: Callable[..., Any]) -> ConfigError:
    """Return the error for a function that returned None."""
    return ConfigError(
        f"{hook_name(function)} returned None; did you forget `return`?",
        hint="return the result; to skip a sample, raise SkipSample",
    )
