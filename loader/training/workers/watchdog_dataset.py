"""A watchdog over a part of a chain that is composed by hand."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from ...errors import ConfigError
from ...pipeline.contract.lane import ItemId, Lane
from ...pipeline.contract.stage import Running, SavableDataset, State
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.stages.pass_through import PassThroughDataset
from .last_sample import LastSampleBoard
from .watchdog import Watchdog

__all__ = ["WatchdogDataset"]

T = TypeVar("T")


class WatchdogDataset(PassThroughDataset[T]):
    """Report an item that takes too long: once, with the stack.

    A loader watches whole micro-batches by itself; this is for finding the stage that hangs.

    Args:
        dataset: What gives the items.
        worker_config: By default the dataset's.
        timeout_seconds: How long an item may take; None: for ever.
        initial_timeout_seconds: The same for the first item of each process; None: for ever.
        fail_on_timeout: Raise a :class:`~loader.errors.WorkerError` then.

    Raises:
        ConfigError: A timeout is not above 0.
    """

    def __init__(
        self,
        dataset: SavableDataset[T],
        worker_config: WorkerConfig | None = None,
        timeout_seconds: float | None = 60,
        initial_timeout_seconds: float | None = None,
        fail_on_timeout: bool = False,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name="watchdog")
        for name, limit in (("timeout", timeout_seconds), ("initial_timeout", initial_timeout_seconds)):
            if limit is not None and limit <= 0:
                raise ConfigError(f"expected {name}_seconds above 0, or None, found {limit:g}")
        self.timeout_seconds = timeout_seconds
        self.initial_timeout_seconds = initial_timeout_seconds
        self.fail_on_timeout = fail_on_timeout
        self._watchdogs: dict[int, tuple[Watchdog, LastSampleBoard]] = {}  # by process: it may be forked

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_watchdogs": {}}

    def settings(self) -> dict[str, Any]:
        return {"timeout_seconds": self.timeout_seconds}

    def watchdog(self) -> tuple[Watchdog, LastSampleBoard]:
        """Give the watchdog of this process, and where is noted what it watches."""
        found = self._watchdogs.get(os.getpid())
        if found is None:
            board = LastSampleBoard(1)
            watchdog = Watchdog(
                self.timeout_seconds, self.initial_timeout_seconds, fail=self.fail_on_timeout, board=board
            )
            found = self._watchdogs[os.getpid()] = watchdog, board
        return found

    def open(self, lane: Lane, state: State) -> Running:
        return _WatchdogRunning(self, lane, state)


class _WatchdogRunning:
    def __init__(self, definition: WatchdogDataset[Any], lane: Lane, state: State) -> None:
        self._upstream = definition.inputs[0].open(lane, state)
        self._watchdog, board = definition.watchdog()
        self._slot = board.slot(0)
        self._lane = lane.number
        self._given = 0

    def next(self) -> tuple[Any, ItemId]:
        self._slot.note(self._lane, self._given)
        with self._watchdog.waiting():
            item = self._upstream.next()
        self._given += 1
        return item

    def state(self) -> State:
        return self._upstream.state()

    def load(self, item_id: ItemId) -> Any:
        return self._upstream.load(item_id)
