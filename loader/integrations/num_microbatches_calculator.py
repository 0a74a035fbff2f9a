"""Number of micro-batches of a step, for runs without megatron-core and Apex.

The functions have the names and semantics of ``megatron.core.num_microbatches_calculator``, so that code written for
that module runs with this one instead. :class:`MegatronDataSampler` sets the consumed samples. With
``rampup_batch_size``, the batch of a step grows with the consumed samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from typing import Any

from torch.utils.data import Sampler

from ..errors import ConfigError, plural
from ..pipeline.contract.worker_config import check_at_least

_FRAMEWORK_CALCULATORS = ("megatron.core.num_microbatches_calculator", "apex.transformer.pipeline_parallel.utils")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRamp:
    """The samples of a step, as a function of the samples consumed before it.

    Args:
        global_batch_size: Samples of a step on all ranks, at the end of the ramp.
        micro_batch_size: Samples of a micro-batch.
        data_parallel_size: Number of data-parallel ranks.
        rampup_batch_size: (start, increment, samples): the first batch size, its increment, and the number of samples
            over which it grows. None does not ramp.

    Raises:
        ConfigError: A batch on the ramp is not a multiple of ``micro_batch_size * data_parallel_size``.

    >>> ramp = BatchRamp(global_batch_size=32, micro_batch_size=2, data_parallel_size=4, rampup_batch_size=(8, 8, 300))
    >>> [ramp.batch_size(consumed) for consumed in (0, 99, 100, 200, 300)]
    [8, 8, 16, 24, 32]
    >>> ramp.num_microbatches(200)
    3
    """

    global_batch_size: int
    micro_batch_size: int
    data_parallel_size: int = 1
    rampup_batch_size: Sequence[int] | None = None

    def __post_init__(self) -> None:
        at_once = self.micro_batch_size * self.data_parallel_size
        if at_once < 1:
            raise ConfigError(
                f"expected micro_batch_size and data_parallel_size of at least 1, found {self.micro_batch_size} and "
                f"{self.data_parallel_size}"
            )
        # A ramp must reach the final size in whole increments.
        sizes = [self.global_batch_size]
        if self.rampup_batch_size is not None:
            start, increment, samples = self._ramp()
            steps, rest = divmod(self.global_batch_size - start, increment) if increment > 0 else (-1, 0)
            if start < 1 or steps < 0 or rest or samples < 0:
                raise ConfigError(
                    f"expected rampup_batch_size to grow in equal steps to global_batch_size={self.global_batch_size}, "
                    f"found a start of {start}, an increment of {increment} and {plural(samples, 'sample')}"
                )
            sizes += [start, increment]
        # Every size on the way is a sum of these, so it divides evenly if these do.
        if any(size < 1 or size % at_once for size in sizes):
            raise ConfigError(
                f"expected the samples of a step to be a multiple of the {at_once} that "
                f"{plural(self.data_parallel_size, 'rank takes', 'ranks take')} at once in micro-batches of "
                f"{self.micro_batch_size}; found {' and '.join(map(str, sizes))}"
            )

    def _ramp(self) -> tuple[int, int, int]:
        try:
            start, increment, samples = self.rampup_batch_size or ()
        except ValueError:
            raise ConfigError(
                "expected rampup_batch_size to be three numbers (start, increment, samples), found "
                f"{self.rampup_batch_size}"
            ) from None
        return int(start), int(increment), int(samples)

    def batch_size(self, consumed_samples: int) -> int:
        """Return the samples of the step that follows ``consumed_samples``."""
        if self.rampup_batch_size is None:
            return self.global_batch_size
        start, increment, samples = self._ramp()
        steps = (self.global_batch_size - start) // increment
        if not steps or consumed_samples >= samples:
            return self.global_batch_size
        return start + consumed_samples * steps // samples * increment

    def num_microbatches(self, consumed_samples: int) -> int:
        return self.batch_size(consumed_samples) // (self.micro_batch_size * self.data_parallel_size)

    def consumed_after(self, steps: int, *, consumed_samples: int = 0) -> int:
        """Return the number of consumed samples after ``steps`` more steps."""
        while steps and self.batch_size(consumed_samples) != self.global_batch_size:
            consumed_samples += self.batch_size(consumed_samples)
            steps -= 1
        return consumed_samples + steps * self.global_batch_size


@dataclass(slots=True)
class _Current:
    """State of the module-level functions, which Megatron's module has as globals."""

    ramp: BatchRamp | None = None
    consumed_samples: int = 0


_current = _Current()


def init_num_microbatches_calculator(
    rank: int,  # noqa: ARG001 - Megatron's logs on rank 0 only; this one does not log
    rampup_batch_size: Sequence[int] | None,
    global_batch_size: int,
    micro_batch_size: int,
    data_parallel_size: int,
) -> None:
    """Set the batch sizes of this process.

    Args:
        rank: Not used.
        rampup_batch_size: See :class:`BatchRamp`.
        global_batch_size: See :class:`BatchRamp`.
        micro_batch_size: See :class:`BatchRamp`.
        data_parallel_size: See :class:`BatchRamp`.

    Raises:
        ConfigError: A batch on the ramp is not a multiple of ``micro_batch_size * data_parallel_size``.
    """
    _current.ramp = BatchRamp(
        global_batch_size=global_batch_size,
        micro_batch_size=micro_batch_size,
        data_parallel_size=data_parallel_size,
        rampup_batch_size=rampup_batch_size,
    )
    _current.consumed_samples = 0


def unset_num_microbatches_calculator() -> None:
    """Remove the batch sizes and the count of this process."""
    _current.ramp = None
    _current.consumed_samples = 0


def update_num_microbatches(
    consumed_samples: int,
    consistency_check: bool = True,  # noqa: ARG001 - every size on the ramp is checked when it is set up
    verbose: bool = False,  # noqa: ARG001
) -> None:
    """Set the number of samples that the run has consumed.

    Args:
        consumed_samples: Consumed samples of all ranks.
        consistency_check: Not used; :func:`init_num_microbatches_calculator` checks all sizes.
        verbose: Not used.
    """
    _current.consumed_samples = consumed_samples


def get_num_microbatches() -> int:
    """Return the micro-batches of each rank in the next step.

    Raises:
        ConfigError: :func:`init_num_microbatches_calculator` was not called.
    """
    return _ramp().num_microbatches(_current.consumed_samples)


def get_current_global_batch_size() -> int:
    """Return the samples of the next step, on all ranks.

    Raises:
        ConfigError: :func:`init_num_microbatches_calculator` was not called.
    """
    return _ramp().batch_size(_current.consumed_samples)


def _ramp() -> BatchRamp:
    if _current.ramp is None:
        raise ConfigError(
            "the number of micro-batches of a step is not set",
            hint="call init_num_microbatches_calculator() first",
        )
    return _current.ramp


def tell_consumed_samples(consumed_samples: int) -> None:
    """Call ``update_num_microbatches`` of megatron-core if that can be imported, else of Apex, else of this module.

    Args:
        consumed_samples: Consumed samples of all ranks.
    """
    for name in _FRAMEWORK_CALCULATORS:
        try:
            module: Any = import_module(name)
        except ImportError:
            continue
        # An installed but uninitialised calculator is not in use, and its update would fail.
        if getattr(module, "_GLOBAL_NUM_MICROBATCHES_CALCULATOR", module) is not None:
            module.update_num_microbatches(consumed_samples=consumed_samples, consistency_check=False)
        return
    update_num_microbatches(consumed_samples=consumed_samples, consistency_check=False)


@dataclass(eq=False)
class ConsumedSamplesBatchSampler(Sampler[list[int]]):
    """Batch sampler that yields the indices of one rank's micro-batches in order, behind the consumed samples.

    The dataset shuffles, as ``MultiEpochDatasetResampler`` does, so a run may continue on another number of ranks.
    Samples at the end that do not fill a micro-batch for each rank are dropped.

    Args:
        total_samples: Samples of the dataset.
        consumed_samples: Samples that the run has consumed before, on all ranks.
        micro_batch_size: Samples of a micro-batch.
        rank: Data-parallel rank of this process.
        data_parallel_size: Number of data-parallel ranks.

    >>> list(ConsumedSamplesBatchSampler(10, consumed_samples=4, micro_batch_size=2))
    [[4, 5], [6, 7], [8, 9]]
    """

    total_samples: int
    _: KW_ONLY
    consumed_samples: int = 0
    micro_batch_size: int = 1
    rank: int = 0
    data_parallel_size: int = 1

    def __post_init__(self) -> None:
        rank, ranks = self.rank, self.data_parallel_size
        if not 0 <= rank < ranks:
            raise ConfigError(f"expected 0 <= rank < data_parallel_size, found rank {rank} of {ranks}")
        check_at_least(1, micro_batch_size=self.micro_batch_size)
        check_at_least(0, consumed_samples=self.consumed_samples)

    @property
    def _samples_per_round(self) -> int:
        return self.micro_batch_size * self.data_parallel_size

    def __iter__(self) -> Iterator[list[int]]:
        first = self.consumed_samples + self.rank * self.micro_batch_size
        for start in range(first, first + self._remaining * self._samples_per_round, self._samples_per_round):
            yield list(range(start, start + self.micro_batch_size))

    @property
    def _remaining(self) -> int:
        return max(0, self.total_samples - self.consumed_samples) // self._samples_per_round

    def __len__(self) -> int:
        """Return the number of micro-batches of the whole dataset for this rank, consumed ones included.

        Lightning continues the count of the previous run, and stops at this number.
        """
        return self.consumed_samples // self._samples_per_round + self._remaining


class MegatronDataSampler:
    """Counter of the samples that a run has consumed, computed from its steps.

    Args:
        global_batch_size: Samples of a step, on all ranks.
        micro_batch_size: Samples of a micro-batch.
        data_parallel_size: Number of data-parallel ranks.
        rampup_batch_size: Growth of the first steps; see
            :class:`~loader.integrations.num_microbatches_calculator.BatchRamp`.
        init_consumed_samples: Samples consumed by the run that this one continues.
        init_global_step: The step at which this run begins.

    Attributes:
        prev_consumed_samples: The count in the loaded state; read by training loops in the style of Megatron.
        if_first_step: 1 after a state was loaded; read by training loops in the style of Megatron.

    Raises:
        ConfigError: A step's samples do not divide into micro-batches for all ranks.

    >>> sampler = MegatronDataSampler(global_batch_size=8, micro_batch_size=2)
    >>> sampler.compute_consumed_samples(10)
    80
    """

    def __init__(
        self,
        *,
        global_batch_size: int,
        micro_batch_size: int = 1,
        data_parallel_size: int = 1,
        rampup_batch_size: Sequence[int] | None = None,
        init_consumed_samples: int = 0,
        init_global_step: int = 0,
    ) -> None:
        self._ramp = BatchRamp(
            global_batch_size=global_batch_size,
            micro_batch_size=micro_batch_size,
            data_parallel_size=data_parallel_size,
            rampup_batch_size=rampup_batch_size,
        )
        self.init_consumed_samples = init_consumed_samples
        self.init_global_step = init_global_step
        self.prev_consumed_samples = init_consumed_samples
        self.if_first_step = 0

    def compute_consumed_samples(self, steps_since_resume: int = 0) -> int:
        return self._ramp.consumed_after(steps_since_resume, consumed_samples=self.init_consumed_samples)

    def batches(self, total_samples: int, *, rank: int = 0) -> ConsumedSamplesBatchSampler:
        """Return a ``batch_sampler`` for ``torch.utils.data.DataLoader`` that continues behind the consumed samples.

        Args:
            total_samples: Samples of the dataset.
            rank: Data-parallel rank of this process.
        """
        return ConsumedSamplesBatchSampler(
            total_samples,
            consumed_samples=self.init_consumed_samples,
            micro_batch_size=self._ramp.micro_batch_size,
            rank=rank,
            data_parallel_size=self._ramp.data_parallel_size,
        )
