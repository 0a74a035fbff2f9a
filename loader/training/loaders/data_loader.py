"""The loader of a training loop: what ``get_loader`` and ``get_savable_loader`` give."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from ...errors import StateError
from ...pipeline.contract.stage import SavableDataset
from ..states.framework_state import (
    broadcast_states,
    framework_state,
    gather_states,
    rank_in_group,
    restore_framework_state,
    warn_of_lookahead,
)
from ..states.lane_checks import check_lane_states
from ..states.run_state import RunState, compare_datasets
from ..states.split_state import redistribute_states
from ..workers.bundles import StreamOptions
from .lane_batches import LaneBatches
from .rank_chain import RankChain, cut_rank_stages
from .restore_sample import restore_sample

__all__ = ["SavableDataLoader"]

T_co = TypeVar("T_co", covariant=True)

_END: Any = object()


class SavableDataLoader(Generic[T_co]):
    """Give the micro-batches of one rank; save where it stands, and go on there.

    Iterating a loader for training again goes on after the last micro-batch that it delivered; one for validation
    starts over. Only one iteration is live at a time.

    Args:
        dataset: The chain.
        options: How worker processes are used.
    """

    def __init__(self, dataset: SavableDataset[T_co], options: StreamOptions | None = None) -> None:
        self.dataset = dataset
        self.worker_config = dataset.worker_config
        self._chain, stages = cut_rank_stages(dataset)
        self._lanes = LaneBatches(self._chain, options or StreamOptions())
        self._steps = RankChain(stages, self._lanes)
        self._goes_on = False  # the next iteration, although the loader is one that starts over
        self._iteration: object = None

    # ------------------------------------------------------------------------------------------ iterating

    def __iter__(self) -> Iterator[T_co]:
        if self._chain.starts_over and not self._goes_on:
            self._steps.start_over()
        self._goes_on = False
        self._iteration = iteration = object()
        return self._iterate(iteration)

    def _iterate(self, iteration: object) -> Iterator[T_co]:
        batches = self._steps.batches()
        while True:
            if iteration is not self._iteration:
                raise StateError(
                    "this iteration of the loader is over: another one has begun, or a state was restored",
                    hint="finish with one iteration before the next, or make a second loader",
                )
            batch = next(batches, _END)
            if batch is _END:
                return
            yield batch

    def __len__(self) -> int:
        """Give the number of micro-batches of an iteration on this rank.

        Raises:
            TypeError: The dataset repeats without end, or its stages drop or regroup samples.
        """
        return len(self.dataset)

    def __bool__(self) -> bool:
        return True  # Python would ask for the length, which not all have

    def close(self) -> None:
        """End the worker processes; the next iteration starts new ones where these stopped."""
        self._lanes.close()

    # --------------------------------------------------------------------------------- saving and restoring

    def save_state_rank(self) -> dict[str, Any]:
        """Give where this rank stands, behind the last micro-batch that it delivered.

        Returns:
            Plain data: dicts and lists of str, int, float, bool and None.
        """
        config = self.worker_config
        return RunState(
            lanes=self._lanes.lanes,
            ranks=config.world_size,
            rank=config.rank,
            seed=config.seed_offset,
            batch=self._lanes.batch,
            lane_states=dict(self._lanes.lane_states),
            steps=self._steps.counts(),
            passes=self._lanes.passes,
            ended=self._lanes.ended,
            dataset=self._chain.identity(),
            kind=self._lanes.kind,
        ).to_plain()

    def restore_state_rank(self, state: dict[str, Any] | None) -> None:
        """Go on where the same rank of a run with as many ranks stood.

        Args:
            state: What :meth:`save_state_rank` gave; None starts at the beginning.

        Raises:
            StateError: The state is of other data, another pipeline, or another rank or number of ranks.
        """
        if state is None:
            return
        saved = RunState.from_plain(state)
        config = self.worker_config
        if (saved.ranks, saved.rank) != (config.world_size, config.rank):
            raise StateError(
                f"this state is of rank {saved.rank} of {saved.ranks}; this is rank {config.rank} of "
                f"{config.world_size}",
                hint=(
                    "give each rank the state that it saved itself"
                    if saved.ranks == config.world_size
                    else "to go on with another number of ranks, pass the states of all of them to "
                    "restore_state_global(), or have their files rewritten by `energon checkpoint redist`"
                ),
            )
        self._restore(saved)

    def save_state_global(self, dst_rank: int | None = None, *, global_dst_rank: int | None = None) -> Any:
        """Collect where all ranks stand; all of them must call it.

        Args:
            dst_rank: The rank, within the data-parallel group, that gets the states.
            global_dst_rank: The same rank, counted among all ranks of the run.

        Returns:
            The list of all ranks' states on that rank, None on the others.

        Raises:
            StateError: There is no process group of these ranks, or the rank is not in it.
        """
        config = self.worker_config
        if dst_rank is None:
            dst_rank = 0 if global_dst_rank is None else rank_in_group(global_dst_rank, config)
        return gather_states(self.save_state_rank(), config, dst_rank)

    def restore_state_global(self, state: Sequence[dict[str, Any]] | None, *, src_rank: int | None = None) -> None:
        """Go on where all ranks stood, also with another number of ranks and workers.

        Args:
            state: What :meth:`save_state_global` gave.
            src_rank: The rank that holds it and hands it round; None: every rank holds it.

        Raises:
            StateError: A rank's state is missing; the states are of other data, another pipeline or of different
                moments; or the number of ranks does not divide the number of lanes.
        """
        if src_rank is not None:
            state = broadcast_states(state, self.worker_config, src_rank)
        if state is None:
            return
        if not isinstance(state, list | tuple):
            what = f"a dict with the keys {[*state][:8]}" if isinstance(state, dict) else f"a {type(state).__name__}"
            raise StateError(
                f"expected the list of the states of all ranks, found {what}",
                hint="pass what save_state_global() gave; restore_state_rank() takes what save_state_rank() gave, and "
                "load_state_dict() what state_dict() gave",
            )
        config = self.worker_config
        self._restore(redistribute_states([RunState.from_plain(one) for one in state], config.world_size)[config.rank])

    def state_dict(self) -> dict[str, Any]:
        """Give where the run stands, in the form that frameworks ask for by this name.

        With several ranks in a process group, **all of them must call this**: each is given the states of all, since
        most frameworks keep what one rank gave and restore all ranks from it. Otherwise it is what
        :meth:`save_state_rank` gives.

        Returns:
            Plain data.
        """
        warn_of_lookahead(self, sys._getframe(1))  # noqa: SLF001 - the frame of who asks
        return framework_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a run stood.

        Args:
            state_dict: What :meth:`state_dict` gave: on this rank; or, with a process group, on any, also of another
                number of them.

        Raises:
            StateError: The state is of other data, of another pipeline, or of other ranks.
        """
        restore_framework_state(self, state_dict)

    def _restore(self, saved: RunState) -> None:
        config = self.worker_config
        compare_datasets(saved.dataset, self._chain.identity())
        if saved.seed != config.seed_offset:
            raise StateError(
                f"the state is of a run with seed_offset={saved.seed}, this one has {config.seed_offset}",
                hint=f"pass WorkerConfig(seed_offset={saved.seed})",
            )
        if config.lanes is not None and config.lanes != saved.lanes:
            raise StateError(
                f"the state is of a run of {saved.lanes} lanes, this one has {config.lanes}",
                hint=f"pass WorkerConfig(lanes={saved.lanes}), or none: a restored run keeps its lanes",
            )
        self._lanes.check_lanes(saved.lanes)
        check_lane_states(saved, self._chain.state_schema(), kind=self._lanes.kind)
        self._steps.restore(saved.steps, ranks=saved.counted_on or saved.ranks)
        self._lanes.restore(
            lanes=saved.lanes,
            batch=saved.batch,
            lane_states=saved.lane_states,
            passes=saved.passes,
            ended=saved.ended,
        )
        self._iteration = None
        self._goes_on = True

    def can_restore_sample(self) -> bool:
        """Tell whether :meth:`restore_sample` can work: always, here."""
        return True

    def restore_sample(self, key: Any) -> Any:
        """Make a sample or micro-batch again.

        Args:
            key: Its ``__restore_key__``.

        Raises:
            StateError: The key is not of this dataset.
        """
        return restore_sample(self._chain, key, lanes=self._lanes.lanes)
