"""The states that megatron-energon saves, and generators of random numbers with states."""

# ruff: noqa: NPY002 - numpy's global generator is what user code draws from
import hashlib
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..pipeline.contract.user_state import FlexState
from ..samples.sample_dataclass import ExtendableDataclassMixin


@dataclass(slots=True, kw_only=True, eq=False)
class SystemRngState:
    """States of the global generators of torch (CPU), numpy and Python.

    Attributes:
        torch: Result of ``torch.get_rng_state()``.
        numpy: Result of ``numpy.random.get_state()``.
        random: Result of ``random.getstate()``.
    """

    torch: Any
    numpy: Any
    random: Any


SystemRngState.__module__ = "megatron.energon.rng"  # the name that pickles and lists of safe globals have


class SystemRng:
    """Functions that seed, save and restore the global generators of torch (CPU), numpy and Python."""

    @staticmethod
    def save_state() -> SystemRngState:
        """Return the states of the three generators."""
        return SystemRngState(torch=torch.get_rng_state(), numpy=np.random.get_state(), random=random.getstate())

    @staticmethod
    def restore_state(state: SystemRngState) -> None:
        """Restore the generators to a saved state."""
        torch.set_rng_state(state.torch)
        np.random.set_state(state.numpy)
        random.setstate(state.random)

    @staticmethod
    def seed(seed: int) -> None:
        """Seed the three generators.

        Args:
            seed: Seed in ``[0, 2**32)``, the range of numpy.

        Raises:
            ValueError: The seed is out of range.
        """
        np.random.seed(seed)  # first, because it checks the range
        torch.manual_seed(seed)
        random.seed(seed)

    @staticmethod
    def get_seed_from_args(*args: Any) -> int:
        """Return a seed in ``[0, 2**32)`` that depends on the texts of the arguments and on nothing else.

        >>> SystemRng.get_seed_from_args(1, "a", None)
        3107733978
        """
        text = "|".join(map(str, args))
        return int.from_bytes(hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:4], "big")

    @staticmethod
    def seed_args(*args: Any) -> None:
        """Seed the three generators with :meth:`get_seed_from_args`."""
        SystemRng.seed(SystemRng.get_seed_from_args(*args))


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
