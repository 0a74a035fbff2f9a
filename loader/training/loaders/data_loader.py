"""The loader of a training loop, whose position can be saved and restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from ...errors import StateError
from ...pipeline.contract.lane import RULES
from ...pipeline.contract.stage import SavableDataset
from ...progress_bar import progress_bar
from ..states.framework_state import (
    broadcast_states,
    framework_state,
    gather_states,
    rank_in_group,
    restore_framework_state,
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
    """Iterate the micro-batches of one rank; save and restore the position.

    A second iteration over a loader for training continues after the last micro-batch that it delivered. A loader for
    validation starts over. Only one iteration is live at a time.

    Args:
        dataset: The chain.
        options: Options of the worker processes.
    """

    def __init__(self, dataset: SavableDataset[T_co], options: StreamOptions | None = None) -> None:
        self.dataset = dataset
        self.worker_config = dataset.worker_config
        self._chain, stages = cut_rank_stages(dataset)
        options = options or StreamOptions()
        self._lanes = LaneBatches(self._chain, options)
        self._shows_progress = options.progress
        self._steps = RankChain(stages, self._lanes)
        self._continues = False  # the next iteration continues, even if the loader is one that starts over
        self._iteration: object = None

    # ------------------------------------------------------------------------------------------ iterating

    def __iter__(self) -> Iterator[T_co]:
        if self._chain.starts_over and not self._continues:
            self._steps.start_over()
        self._continues = False
        self._iteration = iteration = object()
        return self._iterate(iteration)

    def _iterate(self, iteration: object) -> Iterator[T_co]:
        batches = self._steps.batches()
        if self._shows_progress:
            batches = iter(progress_bar(batches, self._known_length(), unit="batch"))
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
        """Return the number of micro-batches of an iteration on this rank.

        For an endless dataset, the number of an epoch. If stages drop or regroup samples, the number is nominal: one
        item for each sample. An iteration does not end there.
        """
        return len(self.dataset)

    def _known_length(self) -> int | None:
        is_known = self.dataset.counts_on_rank or self.dataset.items is not None
        return len(self) if is_known else None

    def __bool__(self) -> bool:
        return True  # Python would call __len__, which may be 0

    def close(self) -> None:
        """End the worker processes; the next iteration starts new ones where these stopped."""
        self._lanes.close()

    # --------------------------------------------------------------------------------- saving and restoring

    def save_state_rank(self) -> dict[str, Any]:
        """Return the state of this rank, after the last micro-batch that it delivered.

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
            rules=self._lanes.rules,
        ).to_plain()

    def restore_state_rank(self, state: dict[str, Any] | None) -> None:
        """Continue from the state of the same rank of a run with the same number of ranks.

        Args:
            state: The result of :meth:`save_state_rank`; None changes nothing.

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
                    "pass each rank the state that it saved itself"
                    if saved.ranks == config.world_size
                    else "to continue with another number of ranks, pass the states of all ranks to "
                    "restore_state_global(), or rewrite their files by `energon checkpoint redist`"
                ),
            )
        self._restore(saved)

    def save_state_global(self, dst_rank: int | None = None, *, global_dst_rank: int | None = None) -> Any:
        """Collect the states of all ranks; all of them must call it.

        Args:
            dst_rank: The rank, within the data-parallel group, that receives the states.
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
        """Continue from the states of all ranks, also with another number of ranks and workers.

        Args:
            state: The result of :meth:`save_state_global`.
            src_rank: The rank that has the states and broadcasts them; None: every rank has them.

        Raises:
            StateError: A rank's state is missing; the states are of other data, another pipeline or different steps;
                or the number of ranks does not divide the number of lanes.
        """
        if src_rank is not None:
            state = broadcast_states(state, self.worker_config, src_rank)
        if state is None:
            return
        if not isinstance(state, list | tuple):
            what = f"a dict with the keys {[*state][:8]}" if isinstance(state, dict) else f"a {type(state).__name__}"
            raise StateError(
                f"expected the list of the states of all ranks, found {what}",
                hint="pass the result of save_state_global(); restore_state_rank() takes that of save_state_rank(), "
                "and load_state_dict() that of state_dict()",
            )
        config = self.worker_config
        self._restore(redistribute_states([RunState.from_plain(one) for one in state], config.world_size)[config.rank])

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the run, under the name that frameworks call.

        With several ranks in a process group, **all of them must call this**: each receives the states of all, since
        most frameworks save the result of one rank and restore all ranks from it. Otherwise the result is that of
        :meth:`save_state_rank`.

        Returns:
            Plain data.
        """
        return framework_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the state of a run.

        Args:
            state_dict: The result of :meth:`state_dict` on this rank. With a process group, that of any rank of a run
                with any number of ranks.

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
        if saved.rules > RULES:
            raise StateError(
                f"a newer version of energon-toolkit saved this state: it has the rules {saved.rules}, this version "
                f"the rules {RULES}",
                hint="restore it with the version that saved it, or a newer one",
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
            rules=saved.rules,
        )
        self._iteration = None
        self._continues = True

    def can_restore_sample(self) -> bool:
        """Report whether :meth:`restore_sample` works: always, for this class."""
        return True

    def restore_sample(self, key: Any) -> Any:
        """Rebuild a sample or micro-batch.

        Args:
            key: Its ``__restore_key__``.

        Raises:
            StateError: The key is not of this dataset.
        """
        return restore_sample(self._chain, key, lanes=self._lanes.lanes, rules=self._lanes.rules)
