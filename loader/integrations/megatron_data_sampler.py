"""``MegatronDataSampler``: counts consumed samples for :class:`MegatronDataModule`, and yields the next indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler

from ..errors import ConfigError
from .num_microbatches_calculator import BatchRamp


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

    def __init__(
        self,
        total_samples: int,
        *,
        consumed_samples: int = 0,
        micro_batch_size: int = 1,
        rank: int = 0,
        data_parallel_size: int = 1,
    ) -> None:
        if not 0 <= rank < data_parallel_size:
            raise ConfigError(f"expected 0 <= rank < data_parallel_size, found rank {rank} of {data_parallel_size}")
        if micro_batch_size < 1:
            raise ConfigError(f"expected a micro_batch_size of at least 1, found {micro_batch_size}")
        if consumed_samples < 0:
            raise ConfigError(f"expected consumed_samples of at least 0, found {consumed_samples}")
        self.total_samples = total_samples
        self.consumed_samples = consumed_samples
        self.micro_batch_size = micro_batch_size
        self.rank = rank
        self.data_parallel_size = data_parallel_size

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
        """Return the number of consumed samples after ``steps_since_resume`` steps of this run."""
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
