import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import loader
from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.contract.user_state import FlexState
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.failures.sample_name import default_get_batch_keys
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.gc import GC_DEFAULT_EVERY_N_ITER, GcDataset
from loader.samples.sample_dataclass import edataclass
from loader.stores.cache_pool import CachePool
from loader.training.loaders.data_loader import DataLoader, SavableDataLoader
from loader.training.workers.watchdog import WatchdogDataset

from .flavors.base_dataset import State
from .rng import SystemRngState

__all__ = [
    "GC_DEFAULT_EVERY_N_ITER",
    "BasicDataLoader",
    "BatchDataset",
    "CachePool",
    "DataLoader",
    "GcDataset",
    "SavableCheckpoint",
    "SavableDataLoader",
    "SavableDataLoaderState",
    "SavableDataset",
    "SavableDatasetCheckpoint",
    "SavableDatasetState",
    "WatchdogDataset",
    "WorkerConfig",
    "default_get_batch_keys",
    "edataclass",
    "get_loader",
    "get_savable_loader",
]

BasicDataLoader = DataLoader

P = ParamSpec("P")
T = TypeVar("T")


def _with_forked_workers(build: Callable[P, T]) -> Callable[P, T]:
    """Return the function with another default: workers are forked, whatever start method the process has set."""

    @wraps(build)
    def with_forked_workers(*arguments: P.args, **options: P.kwargs) -> T:
        chosen = options.get("worker_type") or options.get("multiprocessing_context")
        if chosen is None and "fork" in multiprocessing.get_all_start_methods():
            options["multiprocessing_context"] = "fork"
        return build(*arguments, **options)

    with_forked_workers.__module__ = __name__  # where it is found, also by pickle
    return with_forked_workers


get_loader = _with_forked_workers(loader.get_loader)
get_savable_loader = _with_forked_workers(loader.get_savable_loader)


# The states that megatron-energon saves, which lists of safe globals name.


@dataclass(slots=True, kw_only=True)
class SavableDatasetState(State):
    """The state of a worker's chain, as megatron-energon saves it."""

    rng: SystemRngState
    dataset_state: FlexState
    sample_index: int


@dataclass(slots=True, kw_only=True)
class SavableDatasetCheckpoint(State):
    """The state of a worker, as megatron-energon saves it: a state of its chain, and micro-batches after that."""

    state: SavableDatasetState | None
    offset: int


@dataclass(slots=True, kw_only=True)
class SavableCheckpoint:
    """A state that a worker of megatron-energon keeps."""

    state: SavableDatasetState | None
    checkpoint_time: float
    sample_index: int


@dataclass(slots=True, kw_only=True)
class SavableDataLoaderState(State):
    """The state of a loader, as megatron-energon saves it. States of this library are plain data."""

    worker_states: list[Any]
    next_worker_id: int
    micro_batch_size: int | None
