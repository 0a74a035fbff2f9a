"""Configuration of a run: ranks, worker processes, lanes, seed and error handlers."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...engine.share import launched_rank
from ...errors import ConfigError, EnergonError
from ...lazy_torch import torch
from ...order import mix
from ...samples.hooks import HookContext, hook_context, running_hook_context, set_hook_context
from ..failures.error_handlers import log_exception, reraise_exception
from ..failures.policy import SKIP_TOLERANCE
from ..worker_identity import worker_number
from .rank_group import is_distributed

_WORKER = 22  # separates the seeds of workers from other seeds
_INTEGERS = ("rank", "world_size", "num_workers", "seed_offset")
_SEED_BITS = 32  # numpy's generators take no longer seeds

ErrorHandler = Callable[[Exception, Any, Any], None]
"""Called with the exception, the sample that failed, and its sources."""


def check_integers(arguments: Mapping[str, object], *, may_be_none: bool = True) -> None:
    """Check that arguments are integers, or None.

    Args:
        arguments: Values by name.
        may_be_none: Accept None.

    Raises:
        TypeError: A value has another type.

    >>> check_integers({"batch_size": "8"})
    Traceback (most recent call last):
    TypeError: expected an integer as batch_size, found '8' (str); pass batch_size=8
    """
    for name, value in arguments.items():
        if hasattr(value, "__index__") and not isinstance(value, type):
            continue
        if value is None and may_be_none:
            continue
        text = str(value).strip()
        fix = f"; pass {name}={int(text)}" if text.isdecimal() else ""
        raise TypeError(f"expected an integer as {name}, found {value!r} ({type(value).__name__}){fix}")


def check_at_least(minimum: int, unit: str = "", *, or_none: bool = False, **arguments: Any) -> None:
    """Check that numbers have a minimum.

    Args:
        minimum: The smallest number that is allowed.
        unit: What the numbers count, for the message.
        or_none: Accept None, too.
        **arguments: Values by name.

    Raises:
        ConfigError: A number is smaller.

    >>> check_at_least(1, or_none=True, batch_size=None, limit=0)
    Traceback (most recent call last):
    loader.errors.ConfigError: expected limit of at least 1, or None, found 0
    """
    for name, value in arguments.items():
        if not (or_none and value is None) and value < minimum:
            least = f"{minimum} {unit}".strip() + (", or None" if or_none else "")
            raise ConfigError(f"expected {name} of at least {least}, found {value}")


def check_booleans(arguments: Mapping[str, object]) -> None:
    """Check that arguments are no texts: ``"no"`` is true.

    Args:
        arguments: Values by name.

    Raises:
        TypeError: A value is a text.

    >>> check_booleans({"repeat": "no"})
    Traceback (most recent call last):
    TypeError: expected True or False as repeat, found 'no' (str)
    """
    for name, value in arguments.items():
        if isinstance(value, str | bytes):
            raise TypeError(f"expected True or False as {name}, found {value!r} ({type(value).__name__})")


def _describe_launch() -> str | None:
    """Describe the ranks that a launcher started; None for a single process."""
    try:
        launched = launched_rank(os.environ)
    except ConfigError as error:
        return f"the environment shows several ranks ({error.message})"
    return None if launched is None or launched.world_size == 1 else f"this process is {launched}"


class _ActiveConfig:
    """Class attribute that returns the config of the run whose hook is running; None outside hooks."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> WorkerConfig | None:
        context = running_hook_context()
        return None if context is None else context.worker_config


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerConfig:
    """Ranks and worker processes of a run.

    Args:
        rank: This process among those that share the data.
        world_size: R, the number of these processes.
        num_workers: Worker processes of each rank; 0 loads in the rank's own process.
        data_parallel_group: The process group of these ranks, for saving and restoring global states.
        seed_offset: The seed of the run.
        worker_debug_path: File in which loaders and their workers log the micro-batches; may contain ``{worker_id}``
            (see :meth:`debug_file`), ``{rank}`` and ``{pid}``.
        worker_log_level: 0 logs nothing, 1 or more each micro-batch. Your hooks may write further lines with
            :meth:`worker_log`.
        global_error_handler: Called for a sample that fails; by default logs and skips it.
        restore_error_handler: Called for a sample that fails while a state is restored; by default raises.
        lanes: L, a multiple of the world size, for a new run; a restored run keeps its number. By default
            ``lcm(world_size, 48)``; with packing, grouping or a large Parquet table, ``world_size · num_workers``.
        skip_tolerance: Consecutive samples that a hook of a lane may skip before it has kept any, or fail for with a
            ``failure_tolerance`` of 0; more end the run, and so does a pass that skips all samples. None allows
            any number. The default is 20,000, or 20 times the samples of the data if these are more, up to a million.
        share_metadata: Rank 0 reads the metadata of datasets, and sends it to the other ranks by
            ``torch.distributed``: for runs of very many ranks on one file system. All ranks must then build the same
            datasets in the same order.

    Attributes:
        active_worker_config: The config of the run whose hook is running; None outside hooks.

    Raises:
        ConfigError: A number is out of range.
        TypeError: A number is not an integer.

    >>> config = WorkerConfig(rank=1, world_size=4, num_workers=0, seed_offset=7)
    >>> loader = get_loader(get_train_dataset("photos", batch_size=2, worker_config=config))
    >>> next(iter(loader)).image.shape
    torch.Size([2, 3, 6, 8])
    """

    active_worker_config = _ActiveConfig()

    rank: int
    world_size: int
    num_workers: int
    data_parallel_group: Any = None
    seed_offset: int = 0
    worker_debug_path: str | Path | None = None
    worker_log_level: int = 0
    global_error_handler: ErrorHandler = log_exception
    restore_error_handler: ErrorHandler = reraise_exception
    lanes: int | None = None
    skip_tolerance: int | None = SKIP_TOLERANCE
    share_metadata: bool = False

    def __post_init__(self) -> None:
        # Types are checked first, so that the comparisons below cannot raise another error.
        check_integers({name: getattr(self, name) for name in _INTEGERS}, may_be_none=False)
        check_integers({"lanes": self.lanes, "skip_tolerance": self.skip_tolerance})
        check_booleans({"share_metadata": self.share_metadata})
        for name in ("global_error_handler", "restore_error_handler"):
            if not callable(getattr(self, name)):
                raise TypeError(f"expected a function as {name}, found {getattr(self, name)!r}")
        if self.world_size < 1 or not 0 <= self.rank < self.world_size:
            raise ConfigError(f"expected 0 <= rank < world_size, found rank {self.rank} of {self.world_size}")
        check_at_least(0, num_workers=self.num_workers)
        if self.lanes is not None and (self.lanes < 1 or self.lanes % self.world_size):
            raise ConfigError(
                f"expected lanes to be a multiple of world_size={self.world_size}, found {self.lanes}",
                hint="pass a multiple of each number of ranks on which the run may continue",
            )

        check_at_least(1, or_none=True, skip_tolerance=self.skip_tolerance)

    @classmethod
    def default_worker_config(
        cls,
        num_workers: int = 4,
        data_parallel_group: Any = None,
        *,
        env: bool = False,
        share_metadata: bool = False,
    ) -> WorkerConfig:
        """Create a config with rank and world size of ``torch.distributed``; one rank if it is not initialised.

        For the other arguments see the class.

        Args:
            env: Without a process group, take rank and world size from the variables of the launcher: torchrun
                (``RANK``, ``WORLD_SIZE``), else MPI or PMI, else the step that srun started. All of its ranks then
                share the data. One rank if no launcher started this process.

        Raises:
            ConfigError: With ``env``, the variables contradict each other: a rank is not below the number of ranks.

        Warns:
            RuntimeWarning: Without ``env``, ``torch.distributed`` is not initialised, but srun, mpirun or torchrun
                started this process as one of several.
        """
        check_booleans({"env": env})
        rank, world_size = 0, 1
        # An initialised process group is right in any case: the caller chose it, and variables may be stale.
        if is_distributed():
            rank = torch.distributed.get_rank(data_parallel_group)
            world_size = torch.distributed.get_world_size(data_parallel_group)
        elif env:
            launched = launched_rank(os.environ)
            if launched is not None:
                rank, world_size = launched.rank, launched.world_size
        # Variables of the environment may be stray, so they warn without env=True, and set nothing.
        elif started := _describe_launch():
            warnings.warn(
                f"{started}, but torch.distributed is not initialised, so each rank loads all the data: call "
                "torch.distributed.init_process_group() before default_worker_config(), pass env=True to take the "
                "rank from these variables, or pass rank and world_size to WorkerConfig",
                RuntimeWarning,
                stacklevel=2,
            )
        return cls(
            rank=rank,
            world_size=world_size,
            num_workers=num_workers,
            data_parallel_group=data_parallel_group,
            share_metadata=share_metadata,
        )

    def global_rank(self) -> int:
        """Return the rank of this process among all of ``torch.distributed``; ``rank`` if there is no group."""
        if self.data_parallel_group is None:
            return self.rank
        return torch.distributed.get_global_rank(self.data_parallel_group, self.rank)

    def rank_worker_id(self) -> int:
        """Return the number of this worker among the workers of its rank; 0 in the rank's own process."""
        return worker_number() or 0

    def global_worker_id(self, override_local_worker_id: int | None = None) -> int:
        """Return the number of this worker process among the workers of all ranks.

        Args:
            override_local_worker_id: Number of another worker of this rank.
        """
        local = self.rank_worker_id() if override_local_worker_id is None else override_local_worker_id
        return self.rank * max(1, self.num_workers) + local

    def worker_seed(self, override_local_worker_id: int | None = None) -> int:
        """Return a seed of 32 bits that differs from worker to worker.

        Hooks do not need it: the generators of Python, numpy and torch are seeded for each micro-batch. The numbers
        drawn from them do not depend on the worker, as this seed does.

        Args:
            override_local_worker_id: Number of another worker of this rank.
        """
        return int(mix(self.seed_offset, _WORKER, self.global_worker_id(override_local_worker_id))) >> _SEED_BITS

    @property
    def active_worker_batch_index(self) -> int | None:
        """Number, within the run, of the micro-batch that the running hook works on.

        Raises:
            EnergonError: No hook is running.
        """
        return hook_context().batch_index

    @property
    def active_worker_sample_index(self) -> int | None:
        """Number of the sample that the running hook works on.

        Raises:
            EnergonError: No hook is running.
        """
        return hook_context().sample_index

    def assert_worker(self) -> None:
        """Check that a hook of this run is running.

        Raises:
            EnergonError: No hook of this run is running.
        """
        if self.active_worker_config != self:
            raise EnergonError("no hook of this run is running; only hooks can call this")

    def worker_activate(
        self,
        sample_index: int,
        override_global_rank: int | None = None,  # noqa: ARG002 - documented
        cache_pool: Any = None,
    ) -> None:
        """Enter the context of a hook, for code that calls hooks or iterates a dataset without a loader.

        Args:
            sample_index: Number of the micro-batch, within the run.
            override_global_rank: Accepted for code written for megatron-energon.
            cache_pool: The ``self.cache`` of hooks.
        """
        set_hook_context(
            HookContext(batch_index=sample_index, sample_index=sample_index, cache=cache_pool, worker_config=self)
        )

    def worker_deactivate(self) -> None:
        """Leave the context that :meth:`worker_activate` entered."""
        set_hook_context(None)

    def worker_push_sample_index(self, sample_index: int) -> None:
        """Enter the context of a sample within the context of a micro-batch.

        Raises:
            EnergonError: No hook is running.
        """
        outer = hook_context()
        inner = HookContext(
            batch_index=outer.batch_index, sample_index=sample_index, cache=outer.cache, worker_config=self
        )
        inner.outer = outer
        set_hook_context(inner)

    def worker_pop_sample_index(self) -> int | None:
        """Leave the context that :meth:`worker_push_sample_index` entered; return the number of its sample.

        Raises:
            EnergonError: No such context was entered.
        """
        inner = hook_context()
        if inner.outer is None:
            raise EnergonError("worker_pop_sample_index() needs a worker_push_sample_index() before it")
        set_hook_context(inner.outer)
        return inner.sample_index

    def should_log(self, level: int) -> bool:
        """Return True if events of this level are logged: 1 a batch, 2 a sample, 3 more."""
        return self.worker_debug_path is not None and self.worker_log_level >= level

    def worker_log(self, data: Mapping[str, Any]) -> None:
        """Append a line of JSON to the file at ``worker_debug_path``; do nothing if that is None.

        Args:
            data: The content of the line; values that JSON cannot hold are written as their ``str``.
        """
        if self.worker_debug_path is None:
            return
        path = self.debug_file(self.worker_debug_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opened for each line: an open file would be inherited by forked processes.
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict(data), default=str) + "\n")

    def debug_file(self, path: str | Path) -> Path:
        """Fill in the ``{worker_id}``, ``{rank}`` and ``{pid}`` of a ``worker_debug_path`` for the running process.

        The rank's own process and its workers have different ``worker_id``: ``rank * (num_workers + 1)``, plus 1 for
        the first worker.
        """
        worker = worker_number()
        process = self.rank * (self.num_workers + 1) + (0 if worker is None else worker + 1)
        return Path(str(path).format(worker_id=process, rank=self.rank, pid=os.getpid()))

    def config(self) -> dict[str, Any]:
        """Return the arguments that determine which process reads which samples; of the group, its size."""
        names = ("rank", "world_size", "num_workers", "seed_offset", "lanes")
        group = self.data_parallel_group
        return {
            **dict(zip(names, self._distribution(), strict=True)),
            "data_parallel_group": None if group is None else group.size(),
        }

    def __getstate__(self) -> dict[str, Any]:
        # A process group cannot be pickled, and workers do not need it.
        return {**self.__dict__, "data_parallel_group": None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WorkerConfig):
            return NotImplemented
        return self._distribution() == other._distribution()

    def __hash__(self) -> int:
        return hash(self._distribution())

    def _distribution(self) -> tuple[int, int, int, int, int | None]:
        return self.rank, self.world_size, self.num_workers, self.seed_offset, self.lanes
