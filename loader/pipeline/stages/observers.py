"""Stages that only observe: collect garbage now and then, and log the keys of samples."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..contract.item_id import ItemId, plain_item_id
from ..contract.lane import Lane
from ..contract.pass_through import PassThroughDataset
from ..contract.running import RunningFunctions
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.worker_config import WorkerConfig, check_at_least
from ..failures.error_handlers import keys_of_sample
from ..worker_identity import worker_number

GC_DEFAULT_EVERY_N_ITER = 10
"""Items between two collections, by default."""


class GcDataset(PassThroughDataset[T]):
    """Collect garbage once for each ``every_n_iter`` items of a lane.

    Samples with reference cycles are freed only by the garbage collector, which counts objects, not bytes: a few large
    samples can fill the memory before it starts.

    Args:
        dataset: The stage below.
        every_n_iter: Items between two collections.
        freeze: Accepted for code written for megatron-energon, and ignored: worker processes always exclude the objects
            that exist at their start from collections.
        worker_config: By default the dataset's.

    Raises:
        ConfigError: ``every_n_iter`` is below 1.
    """

    def __init__(
        self,
        dataset: SavableDataset[T],
        *,
        every_n_iter: int = GC_DEFAULT_EVERY_N_ITER,
        freeze: bool = True,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name="gc")
        check_at_least(1, every_n_iter=every_n_iter)
        self.every_n_iter = every_n_iter
        self.freeze = freeze

    def settings(self) -> dict[str, Any]:
        return {"every_n_iter": self.every_n_iter}

    def open(self, lane: Lane, state: State) -> Running:
        upstream, every = self.inputs[0].open(lane, state), self.every_n_iter
        count = lane.number % every  # spreads the collections of the lanes of a process

        def collect_and_next() -> tuple[Any, ItemId]:
            nonlocal count
            count += 1
            if count == every:
                count = 0
                gc.collect()
            return upstream.next()

        return RunningFunctions(collect_and_next, upstream.state, upstream.load)


class LogSampleDataset(PassThroughDataset[T]):
    """Write a line of JSON for each item to the file at ``worker_debug_path``.

    A line has the ``mode``, the ``lane``, the number of the micro-batch (``batch``), the ``keys`` of the samples, and a
    ``restore_key`` for the loader's ``restore_sample()``. It also has the fields that the command ``analyze-debug`` of
    megatron-energon reads: ``t``, ``r`` (rank), ``w`` (worker), ``m`` (mode) and ``idx`` (number of the micro-batch).
    Nothing is written if the worker config has no ``worker_debug_path``, or a ``worker_log_level`` of 0.

    Args:
        dataset: The stage below.
        mode: ``"train"`` or ``"val"``, written to each line.
        get_keys_fn: Returns the keys of an item; by default its ``__key__``.
        worker_config: By default the dataset's.
    """

    def __init__(
        self,
        dataset: SavableDataset[T],
        mode: Literal["train", "val"],
        *,
        get_keys_fn: Callable[[T], Sequence[str] | None] | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name="log_sample")
        self.mode = mode
        self.get_keys_fn = get_keys_fn

    def settings(self) -> dict[str, Any]:
        return {"mode": self.mode}

    def open(self, lane: Lane, state: State) -> Running:
        upstream, config = self.inputs[0].open(lane, state), self.worker_config
        # Without a log, the stage adds no call for each item.
        if config.worker_debug_path is None or not config.worker_log_level:
            return upstream
        keys_of, worker, stage = self.get_keys_fn or keys_of_sample, worker_number(), lane.path + self.key

        def next_and_log() -> tuple[Any, ItemId]:
            value, item_id = upstream.next()
            if value is not SKIPPED:
                batch, keys = lane.context.batch_index, keys_of(value)
                entry = {
                    "t": "yield_batch",
                    "r": config.rank,
                    "w": worker or 0,
                    "m": self.mode,
                    "idx": batch,
                    "mode": self.mode,
                    "lane": lane.number,
                    "batch": batch,
                    "keys": None if keys is None else list(keys),
                    "restore_key": [stage, lane.number, batch, plain_item_id(item_id)],
                }
                config.worker_log(entry)
            return value, item_id

        return RunningFunctions(next_and_log, upstream.state, upstream.load)
