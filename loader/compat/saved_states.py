"""The states that megatron-energon saves, and loaders with its default of forked workers."""

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ..pipeline.contract.user_state import FlexState
from ..samples.sample_dataclass import ExtendableDataclassMixin
from ..training.loaders.get_loader import get_loader as _get_loader, get_savable_loader as _get_savable_loader
from .generators import SystemRngState

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


get_loader = _with_forked_workers(_get_loader)
get_savable_loader = _with_forked_workers(_get_savable_loader)


@dataclass(slots=True)
class State(ExtendableDataclassMixin):
    """Base of the states that megatron-energon saves. States of this library are plain data."""


@dataclass(slots=True, kw_only=True)
class SliceState:
    """A position in a slice of a shard, as megatron-energon saves it. States of this library are plain data."""

    index: int
    current: int


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


# Pickles and lists of safe globals name these classes as megatron-energon does.
for _class, _module in (
    (State, "flavors.base_dataset"),
    (SliceState, "flavors.webdataset.sample_loader"),
    (SavableDatasetState, "savable_loader"),
    (SavableDatasetCheckpoint, "savable_loader"),
    (SavableCheckpoint, "savable_loader"),
    (SavableDataLoaderState, "savable_loader"),
):
    _class.__module__ = f"megatron.energon.{_module}"
