"""A stage that logs the keys of samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..contract.item_id import ItemId, plain_item_id
from ..contract.lane import Lane
from ..contract.pass_through import PassThroughDataset
from ..contract.running import RunningFunctions
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.worker_config import WorkerConfig
from ..failures.error_handlers import keys_of_sample
from ..worker_identity import worker_number


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

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, worker_debug_path="log.jsonl", worker_log_level=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> list(get_loader(MapDataset(LogSampleDataset(photos, "val"), lambda sample: sample.caption)))
    ['a cat', 'a dog', 'two cats', 'a bird']
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
