"""The loader of a training loop, whose position can be saved and restored."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self, Unpack

import torch.utils.data
from torch.utils.data.distributed import DistributedSampler

from ...errors import ConfigError, StateError, plural
from ...pipeline.contract.dataset_methods import close_datasets
from ...pipeline.contract.stage import SavableDataset, State, register_with_torch
from ...pipeline.contract.worker_config import WorkerConfig
from ..states.run_state import RunState, redistribute_states
from ..stats.profile import LoaderProfile
from ..stats.snapshot import LoaderStats, with_all_ranks
from ..workers.stream_options import CheckpointKeywords, StreamOptions
from .batches_ahead import DeviceBatches, RestoredLoader, T_co
from .replay import restore_sample
from .replay_step import replay_step
from .run import LoaderRun, required_stats
from .served_states import (
    SERVED,
    broadcast_states,
    destination,
    framework_state,
    gather_states,
    list_of_states,
    restore_framework_state,
    states_of_ranks,
    states_of_served,
)
from .step_totals import StepTotals

register_with_torch()  # torch is imported here, if not before


class RankShare(DistributedSampler[Any]):
    """Sampler of a loader whose order and share of the data are part of its dataset; it yields no indexes.

    Frameworks replace the sampler of a loader by a ``DistributedSampler``, unless it is one.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self.num_replicas = config.world_size
        self.rank = config.rank
        self.epoch = 0
        self.seed = config.seed_offset
        self.shuffle = self.drop_last = False

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("the order of samples is part of the dataset: iterate the loader, not its sampler")

    def __len__(self) -> int:
        raise TypeError("the order of samples is part of the dataset: take the length of the loader")


class _Fixed(property):
    """Property that cannot be set; the error names the reason."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, loader: Any, value: Any) -> None:
        raise ValueError(
            f"{self._name} of a {type(loader).__name__} cannot be set: the dataset determines the order of samples, "
            "the batches and this rank's share. Build another dataset and loader instead."
        )


class TorchLoader(torch.utils.data.DataLoader[T_co]):
    """A ``DataLoader`` for frameworks. It neither initializes torch's class nor iterates as it does."""

    _is_accelerate_prepared = True  # Accelerate would otherwise build a loader of its own that reads the dataset
    _iterator = None

    worker_config: WorkerConfig
    generator = None
    timeout = 0
    worker_init_fn: Callable[[int], None] | None = None  # Lightning sets one that seeds generators; lanes seed theirs
    pin_memory_device = ""
    in_order = True

    if not TYPE_CHECKING:  # torch's stubs declare variables
        batch_size = _Fixed(lambda _: None)
        batch_sampler = _Fixed(lambda _: None)
        drop_last = _Fixed(lambda _: False)

        @_Fixed
        def num_workers(self) -> int:
            """Worker processes of this rank."""
            return self.worker_config.num_workers

        @_Fixed
        def sampler(self) -> RankShare:
            """A sampler without indexes: the order is part of the dataset."""
            return RankShare(self.worker_config)

        @property
        def prefetch_factor(self) -> int | None:
            """Micro-batches that each worker makes ahead; None without workers."""
            return self._options().prefetch_factor if self.num_workers else None

        @property
        def pin_memory(self) -> bool:
            """True if micro-batches are copied to pinned memory when there is a GPU."""
            return self._options().pin_memory

        @property
        def persistent_workers(self) -> bool:
            """True with workers: they live until the end of a pass, also across virtual epochs."""
            return self.num_workers > 0

        @property
        def multiprocessing_context(self) -> Any:
            """The context in which worker processes start; None if it is Python's default."""
            options = self._options()
            method = options.multiprocessing_context or ("fork" if options.worker_type == "fork" else None)
            return None if method is None or not self.num_workers else torch.multiprocessing.get_context(method)

    def _options(self) -> StreamOptions:
        raise NotImplementedError

    @staticmethod
    def collate_fn(batch: Any) -> Any:
        """Return a micro-batch unchanged: the task encoder's ``batch`` has built it."""
        return batch


_IGNORED = ("checkpoint_every_sec", "checkpoint_every_min_n_samples", "n_checkpoints")
"""Arguments of :func:`get_savable_loader` without effect."""

_OPTIONS = ("num_workers", "prefetch_factor", "pin_memory")
_NOT_FOR_USERS = {"restore_state", "run", "save_state"}  # deprecated, and of the library


class DataLoader(RestoredLoader, TorchLoader[T_co]):
    """Iterate the micro-batches of one rank; save and restore the position.

    A second iteration over a loader for training continues after the last micro-batch that it delivered. A loader for
    validation starts over. Only one iteration is live at a time.

    Workers start with the first iteration, or with :meth:`start`. A ``with`` block starts them and ends them::

        with get_loader(dataset) as loader:
            for batch in loader: ...

    It is an instance of torch's ``DataLoader``, because frameworks accept no other. Those that rebuild a loader with a
    sampler get a loader of the same run, which ignores the sampler.

    Args:
        dataset: The chain.
        options: Options of the workers; by default from the keywords.
        run: The run of the loader that a framework rebuilds.
        sampler: Accepted for frameworks that rebuild loaders, and ignored.
        batch_sampler: As above.
        shuffle: As above.
        **keywords: The arguments of :func:`get_savable_loader`.

    Raises:
        TypeError: A keyword has another name.

    >>> loader = get_loader(get_train_dataset("photos", batch_size=2))
    >>> batches = iter(loader)
    >>> next(batches).image.shape
    torch.Size([2, 3, 6, 8])
    >>> state = loader.save_state_rank()
    >>> expected = next(batches).caption
    >>> again = get_loader(get_train_dataset("photos", batch_size=2))
    >>> again.restore_state_rank(state)
    >>> next(iter(again)).caption == expected
    True
    """

    _totals: StepTotals | None = None

    def __init__(
        self,
        dataset: SavableDataset[T_co],
        options: StreamOptions | None = None,
        *,
        run: LoaderRun | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,  # noqa: ARG002 - see `sampler`
        shuffle: bool | None = None,  # noqa: ARG002 - likewise
        **keywords: Unpack[CheckpointKeywords],
    ) -> None:
        if sampler is not None and not isinstance(sampler, RankShare):
            warnings.warn(
                f"the sampler {type(sampler).__name__} is ignored: the dataset determines the order of samples and "
                "this rank's share of them",
                UserWarning,
                stacklevel=2,
            )
        self.dataset: SavableDataset[T_co] = dataset  # type: ignore[assignment] # torch's class names its own
        self.worker_config = dataset.worker_config
        if run is None:
            known: dict[str, Any] = {name: value for name, value in keywords.items() if name not in _IGNORED}
            run = LoaderRun(dataset, options or StreamOptions(**known))
        self.run = run

    # ------------------------------------------------------------------------------------------ iterating

    def __iter__(self) -> Iterator[T_co]:  # type: ignore[override] # torch's class has an iterator of its own
        dataset, shows_length = self.dataset, self.run.options.progress
        shows_length = shows_length and (dataset.counts_on_rank or dataset.items is not None)
        return self.run.iterate(len(self) if shows_length else None)

    def __len__(self) -> int:
        """Return the number of micro-batches of an iteration on this rank.

        For an endless dataset, the number of an epoch. If stages drop or regroup samples, the number is nominal: one
        item for each sample. An iteration does not end there.
        """
        return len(self.dataset)

    def __str__(self) -> str:
        """Return the workers and the chain of stages, for ``print``."""
        options = ", ".join(f"{name}={getattr(self, name)}" for name in _OPTIONS)
        first, *rest = str(self.dataset).split("\n")
        return "\n".join([f"{type(self).__name__}({options})", f"└─ {first}", *(f"   {line}" for line in rest)])

    def __repr__(self) -> str:
        config = self.worker_config
        ranks = f"{plural(config.num_workers, 'worker')}, rank {config.rank} of {config.world_size}"
        return f"<{type(self).__name__} with {ranks}: {self.dataset!r}>"

    def __dir__(self) -> list[str]:
        # Not what torch's class has for frameworks.
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, (DataLoader, RestoredLoader))]
        names = {*_OPTIONS, "dataset", "worker_config", *(name for kind in kinds for name in vars(kind))}
        return sorted(name for name in names - _NOT_FOR_USERS if not name.startswith("_"))

    def __bool__(self) -> bool:
        return True  # Python would call __len__, which may be 0

    # ------------------------------------------------------------------------------------------ workers

    def start(self) -> Self:
        """Start the workers, which begin to make micro-batches; the next iteration uses them.

        Iterating starts them, too. Call this early, for example before the model is built, to hide the time that
        workers take until their first micro-batch. Workers that run are not started again.
        """
        self.run.start()
        return self

    def shutdown(self) -> None:
        """End the workers and free their memory; without running workers, do nothing.

        A running iteration ends, also one of another thread. The position is kept: it can be saved, and a later
        iteration or :meth:`start` starts new workers where these stopped.
        """
        self.run.close()
        close_datasets(self.dataset)

    close = shutdown

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.shutdown()

    def _options(self) -> StreamOptions:
        return self.run.options

    def to_device(self, device: Any, *, prefetch: int = 2) -> DeviceBatches[T_co]:
        """Return an iterable of the same micro-batches on a device, copied while the training loop computes.

        Tensors in nested dicts, lists, tuples and dataclasses are copied; all else stays. States stay exact: they are
        those after the last micro-batch that the training loop got.

        Args:
            device: The device, such as ``"cuda"`` or ``torch.device("cuda", 3)``. For the CPU nothing is copied.
            prefetch: Micro-batches that are on their way to the device; each takes memory there.

        Raises:
            ConfigError: ``prefetch`` is below 0, or torch knows no such device.
        """
        return DeviceBatches(self, device, prefetch=prefetch)

    # ------------------------------------------------------------------------------------------ statistics

    def stats(self, *, gather: bool = False) -> LoaderStats:
        """Return what the training loop has waited for, and what the workers did.

        ``print(loader.stats())`` shows one line, ``wandb.log(loader.stats().to_dict())`` logs plain numbers. They begin
        with the first iteration of this loader, and again when a state is restored.

        Args:
            gather: Collect the waits of all ranks, to find the slowest one. All ranks must call it.

        Raises:
            ConfigError: The loader was built with ``stats=False``, or ranks are to be gathered without a process group.
        """
        stats = required_stats(self.run.stats).stats()
        return with_all_ranks(stats, self.worker_config) if gather else stats

    def profile(
        self, path: str | os.PathLike[str] | None = None, *, steps: int | None = None
    ) -> AbstractContextManager[LoaderProfile]:
        """Record each call of the workers and the training loop, for a ``with`` block.

        ``with loader.profile("trace.json", steps=100) as profile: …`` writes a trace for Perfetto (ui.perfetto.dev) or
        Chrome (about:tracing) at the end of the block; ``profile.stats`` are the statistics of the block then.

        Args:
            path: Local file for the trace, which is replaced; None writes none.
            steps: Number of micro-batches to record; None: all of the block.

        Raises:
            ConfigError: The loader was built with ``stats=False``, steps are below 1, or the file has no folder.
        """
        if steps is not None and steps < 1:
            raise ConfigError(f"expected at least 1 of steps, or None, found {steps}")
        return required_stats(self.run.stats).profile(path, steps)

    def headroom(self, rounds: int | None = 4) -> None:
        """Measure what a perfect loader would gain: repeat cached micro-batches in alternation with new ones.

        Call it before an iteration, **for measurements only**: the model sees repeated data. A round takes about 40
        steps. :meth:`stats` has the result as ``headroom``.

        Args:
            rounds: Number of rounds, after which all micro-batches are new; None: no end.

        Raises:
            ConfigError: The loader was built with ``stats=False``, or rounds are below 1.
        """
        required_stats(self.run.stats).begin_trial(rounds)

    # --------------------------------------------------------------------------------- saving and restoring

    def save_state_rank(self) -> dict[str, Any]:
        """Return the state of this rank, after the last micro-batch that it delivered.

        The handler of a signal may call it, also while the loop waits for the next micro-batch.

        Returns:
            Plain data: dicts and lists of str, int, float, bool and None.
        """
        return self.run.state().to_plain()

    def restore_state_rank(
        self, state: dict[str, Any] | None, *, allow_mix_change: bool = False, allow_edited_state: bool = False
    ) -> None:
        """Continue from the state of the same rank of a run with the same number of ranks.

        Args:
            state: The result of :meth:`save_state_rank`; None changes nothing.
            allow_mix_change: Continue also if datasets or weights of the mix were edited since. Datasets that stay
                continue their own order; the others begin. The environment may allow it as well:
                ``ENERGON_ALLOW_MIX_CHANGE=1``.
            allow_edited_state: Accept a state that was edited by hand, whose checksum does not fit its values. An edit
                may make the run repeat or skip samples, or end in an error.

        Raises:
            StateError: The state is damaged or edited, or of other data, another pipeline, or another rank or number of
                ranks; or the mix has changed, and this is not allowed or not possible exactly.
        """
        if state is None:
            return
        # Parse the state; of a loader that served several ranks, take the state of this rank.
        config = self.worker_config
        if isinstance(state, Mapping) and SERVED in state:  # type: ignore[redundant-expr] # users pass other values, too
            parts = states_of_served(state, allow_edited=allow_edited_state)
            saved = next((part for part in parts if part.rank == config.rank), parts[0])
        else:
            saved = RunState.from_plain(state, allow_edited=allow_edited_state)
        # Lanes belong to ranks, so a state of another rank would repeat its samples.
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
        self.run.restore(saved, saved.lane_states, allow_mix_change=allow_mix_change)

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
        return self._gather(destination(dst_rank, global_dst_rank, self.worker_config))

    def _gather(self, dst_rank: int) -> Any:
        return gather_states(self.save_state_rank(), self.worker_config, dst_rank)

    def restore_state_global(
        self,
        state: Sequence[dict[str, Any]] | None,
        *,
        src_rank: int | None = None,
        allow_mix_change: bool = False,
        allow_edited_state: bool = False,
    ) -> None:
        """Continue from the states of all ranks, also with another number of ranks and workers.

        Args:
            state: The result of :meth:`save_state_global`.
            src_rank: The rank that has the states and broadcasts them; None: every rank has them.
            allow_mix_change: As in :meth:`restore_state_rank`.
            allow_edited_state: As in :meth:`restore_state_rank`.

        Raises:
            StateError: A rank's state is missing; the states are of other data, another pipeline or different steps;
                the number of ranks does not divide the number of lanes; or the mix has changed, and this is not
                allowed or not possible exactly.
        """
        if src_rank is not None:
            state = self._broadcast(state, src_rank)
        if state is None:
            return
        states = states_of_ranks(list_of_states(state), allow_edited=allow_edited_state)
        lane_states = {lane: lane_state for rank_state in states for lane, lane_state in rank_state.lane_states.items()}
        saved = redistribute_states(states, self.worker_config.world_size)
        self._restore(saved, lane_states, allow_mix_change=allow_mix_change)

    def _broadcast(self, state: Any, src_rank: int) -> Any:
        return broadcast_states(state, self.worker_config, src_rank)

    def _restore(self, saved: Sequence[RunState], lane_states: Mapping[int, State], *, allow_mix_change: bool) -> None:
        self.run.restore(saved[self.worker_config.rank], lane_states, allow_mix_change=allow_mix_change)

    def save_state(self, dst_rank: int) -> Any:
        """Collect the states of all ranks: the deprecated name of :meth:`save_state_global`."""
        _warn_of_name("save_state", "save_state_global() or save_state_rank()")
        return self.save_state_global(dst_rank)

    def restore_state(self, state: Sequence[dict[str, Any]] | None) -> None:
        """Continue from the states of all ranks: the deprecated name of :meth:`restore_state_global`."""
        _warn_of_name("restore_state", "restore_state_global() or restore_state_rank()")
        self.restore_state_global(state)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the run, under the name that frameworks call.

        With several ranks in a process group, **all of them must call this**: each receives the states of all, since
        most frameworks save the result of one rank and restore all ranks from it. Otherwise the result equals
        :meth:`save_state_rank`.

        Returns:
            Plain data.
        """
        return framework_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the state of a run.

        Args:
            state_dict: The result of :meth:`state_dict` on this rank. With a process group, the result of any rank of
                a run with any number of ranks.

        Raises:
            StateError: The state is of other data, of another pipeline, or of other ranks.
        """
        restore_framework_state(self, state_dict)

    def can_restore_sample(self) -> bool:
        """Report whether :meth:`restore_sample` works: always, for this class."""
        return True

    def restore_sample(self, restore_key: Any) -> Any:
        """Rebuild a sample or micro-batch.

        Args:
            restore_key: Its ``__restore_key__``.

        Raises:
            StateError: The key is not of this dataset.
        """
        return restore_sample(self.run.chain, restore_key, lanes=self.run.lanes.lanes)

    def replay(self, step: int) -> Any:
        """Rebuild this rank's micro-batch of a step, with the same samples, random numbers and tensors.

        Where the state of the lane shows that nothing was skipped before it, the samples of the step are read at once.
        Otherwise the lane is repeated from the nearest state that this loader knows: its position, a restored state, or
        the beginning. So restore a checkpoint near the step first. The position of the loader stays.

        Args:
            step: Number of the step, counted from 0 at the beginning of the run: one micro-batch on each rank. Steps
                that ``skip_steps`` skips can be rebuilt, too.

        Raises:
            ConfigError: The dataset is not one for training without end, or the rank has no micro-batch in this step.
            StateError: All samples of the micro-batch were skipped.
        """
        return replay_step(self.run, step)

    def step_totals(self, step: int, accumulate: int = 1) -> dict[str, float]:
        """Return the planned samples and costs of a step over all ranks, by which losses are normalised.

        Every rank computes the same numbers, without a message. They are plans: samples that hooks skip count.

        Args:
            step: Number of the step, counted from 0 at the beginning of the run.
            accumulate: Steps that an optimizer step sums, this one first.

        Returns:
            ``"samples"``, and the sum of each cost by its name.

        Raises:
            ConfigError: The dataset plans no micro-batches or packs, or is not one for training without end.
        """
        totals = self._totals
        if totals is None or totals.chain is not self.run.chain or totals.restored is not self.run.restored_lanes:
            totals = self._totals = StepTotals(self.run)
        return totals.of(step, accumulate=accumulate)

    def config(self) -> dict[str, Any]:
        """Return the chain and the options of the workers, as plain data for logs and comparisons."""
        names = ("num_workers", "persistent_workers", "pin_memory", "prefetch_factor")
        options = {name: getattr(self, name) for name in names}
        return {"type": type(self).__name__, **options, "dataset": self.dataset.identity()}


SavableDataLoader = DataLoader


def _warn_of_name(name: str, better: str) -> None:
    warnings.warn(f"{name}() is deprecated; use {better}", FutureWarning, stacklevel=3)
