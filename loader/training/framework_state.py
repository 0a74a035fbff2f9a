"""What frameworks save of a loader when they find ``state_dict()`` on it, and restore by ``load_state_dict()``.

Lightning, Accelerate and others keep what one rank gives, and restore all ranks from it. So with several ranks in a
process group, each rank gives the states of all.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any, Protocol

from ..pipeline.worker_config import WorkerConfig
from .gathered_states import gather_states, hand_round_states, is_distributed

__all__ = ["framework_state", "restore_framework_state", "warn_of_lookahead"]

_ALL_RANKS = "states of all ranks"


class _Loader(Protocol):
    worker_config: WorkerConfig

    def __len__(self) -> int: ...

    def save_state_rank(self) -> dict[str, Any]: ...

    def restore_state_rank(self, state: dict[str, Any] | None) -> None: ...

    def restore_state_global(self, state: Sequence[dict[str, Any]] | None) -> None: ...


def framework_state(loader: _Loader) -> dict[str, Any]:
    """Give the state of a rank, or, where there is a process group, of all ranks, which must call this together."""
    config = loader.worker_config
    state = loader.save_state_rank()
    if config.world_size == 1 or not is_distributed():
        return state
    return {_ALL_RANKS: hand_round_states(gather_states(state, config, 0), config, 0)}


def restore_framework_state(loader: _Loader, state: dict[str, Any]) -> None:
    """Restore what :func:`framework_state` gave, also on another number of ranks where it is of all of them."""
    if isinstance(state, dict):
        states = state.get(_ALL_RANKS)
        if states is None and state.get("ranks") == 1 != loader.worker_config.world_size:
            states = [state]  # of the only rank there was
        if states is not None:
            loader.restore_state_global(states)
            return
    loader.restore_state_rank(state)


def warn_of_lookahead(loader: _Loader, caller: FrameType | None) -> None:
    """Warn where Lightning asks for the state of a loader whose end it cannot see: it holds one micro-batch by then.

    Args:
        loader: Whose state is asked for.
        caller: Who asks.
    """
    module = "" if caller is None else str(caller.f_globals.get("__name__", ""))
    if not module.startswith(("lightning.", "pytorch_lightning.")):
        return
    try:
        len(loader)
    except TypeError:
        warnings.warn(
            "Lightning takes one micro-batch ahead from a loader that has no length, so a run that is restored from "
            "this checkpoint would miss that one: give get_train_dataset() a virtual_epoch_length, or the trainer "
            "limit_train_batches (then nothing is missed, and this may be ignored)",
            stacklevel=4,
        )
