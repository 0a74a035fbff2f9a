"""A user's function as a stage calls it: with its own random numbers where it asks for them, its failures counted."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

from ...errors import SkipSample
from ...order import mix
from ...samples.hooks import restores_seeds
from .failures import EndlessSkips
from .item import ItemId, position_of
from .lane import Lane
from .rng import preserve_rng_state, seed_sample
from .stage import SKIPPED

__all__ = ["Hook"]


class Hook:
    """A function of the user's at work on a lane.

    Args:
        function: The function.
        lane: The lane.
    """

    __slots__ = (
        "_at_work_on",
        "_context",
        "_failures",
        "_function",
        "_isolates",
        "_lanes",
        "_number",
        "_seed",
        "skips",
    )

    def __init__(self, function: Callable[..., Any], lane: Lane) -> None:
        self._function = function
        # What chooses among several functions says which, so that one that works does not hide one that never does.
        self._at_work_on: Callable[[Any], Callable[..., Any]] | None = getattr(function, "at_work_on", None)
        self._number, self._lanes, self._context, self._failures = lane.number, lane.count, lane.context, lane.failures
        self._isolates = restores_seeds(function)
        # Two hooks of a chain draw other numbers for the same sample.
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self._seed = int(mix(lane.seed, zlib.crc32(name.encode())))
        self.skips = EndlessSkips(getattr(function, "__name__", type(function).__name__), lane.number)

    def call(self, argument: Any, item_id: ItemId) -> Any:
        """Call the function for what ``ref`` names.

        Raises:
            Exception: What the function raises.
        """
        position = (
            item_id if type(item_id) is int else position_of(item_id)
        )  # most are, and this is called for every sample
        self._context.sample_index = position * self._lanes + self._number
        if not self._isolates:
            return self._function(argument)
        with preserve_rng_state(numpys_second=False):
            seed_sample(self._seed, self._number, item_id)
            return self._function(argument)

    def step(self, items: Iterator[Any], item_id: ItemId) -> Any:
        """Take the item that ``ref`` names from a generator that :meth:`call` gave.

        Raises:
            Exception: What the generator raises; StopIteration at its end.
        """
        if not self._isolates:
            return next(items)
        with preserve_rng_state(numpys_second=False):
            seed_sample(self._seed, self._number, item_id)
            return next(items)

    def attempt(self, argument: Any, item_id: ItemId) -> Any:
        """Call the function; :data:`SKIPPED` where it leaves the sample out, or fails and that is tolerated."""
        try:
            result = self.call(argument, item_id)
        except SkipSample:
            self.skips.add()
            return SKIPPED
        except Exception as error:
            return self.failed(error, argument)
        if self.skips.count and not isinstance(result, GeneratorType):
            self.skips.count = 0
        if self._failures.pending:
            self.succeeded(argument)
        return result

    def items(self, argument: Any, key: str, item_id: ItemId) -> Iterator[tuple[Any, ItemId]]:
        """Call the function and yield what it gives: nothing, an item, or those of a generator.

        Args:
            argument: What it is called with.
            key: Of the stage, for the refs ``(key, k, ref)`` of a generator's items.
            ref: What names the argument; it also names a single item.
        """
        result = self.attempt(argument, item_id)
        if result is SKIPPED:
            return
        if not isinstance(result, GeneratorType):
            yield result, item_id
            return
        number = 0
        while True:
            item_ref = (key, number, item_id)
            try:
                item = self.step(result, item_ref)
            except (StopIteration, SkipSample):
                self.ended(number)
                return
            except Exception as error:
                self.failed(error, argument)
                return
            self.succeeded(argument)
            yield item, item_ref
            number += 1

    def item_again(self, argument: Any, key: str, number: int, item_id: ItemId) -> Any:
        """Make the ``number``-th item again that :meth:`items` gave for an argument.

        Raises:
            Exception: What the function raises.
        """
        result = self.call(argument, item_id)
        if not isinstance(result, GeneratorType):
            return result
        item: Any = SKIPPED
        for each in range(number + 1):
            item = self.step(result, (key, each, item_id))
        return item

    def failed(self, error: Exception, argument: Any) -> Any:
        """Count a failure; returns :data:`SKIPPED` where it is tolerated.

        Raises:
            Exception: The run is to stop.
        """
        self._failures.failed(self._at_work(argument), error, argument)
        return SKIPPED

    def ended(self, items: int) -> None:
        """Count a generator that has ended, by the items that it gave: one without any has left its sample out."""
        if items:
            self.skips.count = 0
        else:
            self.skips.add()

    def succeeded(self, argument: Any = None) -> None:
        """Count a success; with what the function was called with, where it may be one of several."""
        if self._failures.pending:
            self._failures.succeeded(self._at_work(argument))

    def _at_work(self, argument: Any) -> Callable[..., Any]:
        return self._function if self._at_work_on is None else self._at_work_on(argument)
