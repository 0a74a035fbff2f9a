"""``MegatronDataSampler``: which samples a run has consumed, and which come next, for :class:`MegatronDataModule`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler

from ..errors import ConfigError
from .num_microbatches_calculator import BatchRamp

__all__ = ["ConsumedSamplesBatchSampler", "MegatronDataSampler"]


class ConsumedSamplesBatchSampler(Sampler[list[int]]):
    """Give the indices of one rank's micro-batches, in order, behind those that the run has consumed.

    Shuffling is the dataset's part, as with ``MultiEpochDatasetResampler``; so a run may go on on another number of
    ranks. Samples at the end that do not make a micro-batch for each rank are left out.

    Args:
        total_samples: Of the dataset.
        consumed_samples: By the run before, on all ranks.
        micro_batch_size: Samples of a micro-batch.
        rank: This one, among those that get different data.
        data_parallel_size: How many they are.

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
    def _at_once(self) -> int:
        return self.micro_batch_size * self.data_parallel_size

    def __iter__(self) -> Iterator[list[int]]:
        first = self.consumed_samples + self.rank * self.micro_batch_size
        for start in range(first, first + self._left * self._at_once, self._at_once):
            yield list(range(start, start + self.micro_batch_size))

    @property
    def _left(self) -> int:
        return max(0, self.total_samples - self.consumed_samples) // self._at_once

    def __len__(self) -> int:
        """Give the micro-batches of the whole dataset for this rank, consumed ones included.

        Lightning counts on from the micro-batches of the run before, and ends where it comes to this number.
        """
        return self.consumed_samples // self._at_once + self._left


class MegatronDataSampler:
    """Count the samples that a run has consumed, by the steps that it has taken.

    Args:
        global_batch_size: Samples of a step, on all ranks.
        micro_batch_size: Samples of a micro-batch.
        data_parallel_size: Ranks that get different data.
        rampup_batch_size: How the first steps grow: see
            :class:`~loader.integrations.num_microbatches_calculator.BatchRamp`.
        init_consumed_samples: Consumed by the run that this one goes on from.
        init_global_step: The step with which this run begins.

    Attributes:
        prev_consumed_samples: What the state said that was loaded; for loops of Megatron's kind, that ask for it.
        if_first_step: 1 once a state was loaded, likewise.

    Raises:
        ConfigError: Steps cannot be cut into micro-batches for all ranks.

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
        """Give the samples that are consumed when so many steps were taken since the run began or went on."""
        return self._ramp.consumed_after(steps_since_resume, consumed_samples=self.init_consumed_samples)

    def batches(self, total_samples: int, *, rank: int = 0) -> ConsumedSamplesBatchSampler:
        """Give what a ``torch.utils.data.DataLoader`` takes as its ``batch_sampler``, to go on where the run stood.

        Args:
            total_samples: Of the dataset.
            rank: This one, among those that get different data.
        """
        return ConsumedSamplesBatchSampler(
            total_samples,
            consumed_samples=self.init_consumed_samples,
            micro_batch_size=self._ramp.micro_batch_size,
            rank=rank,
            data_parallel_size=self._ramp.data_parallel_size,
        )
