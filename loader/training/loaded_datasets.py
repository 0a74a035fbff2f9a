"""The datasets of a run, opened, and the chains that are built on them: what a task encoder's ``build_…`` hooks get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ConfigError
from ..pipeline.epochize import EpochizeDataset
from ..pipeline.even_ranks import EvenRanksDataset
from ..pipeline.leaf import Leaf
from ..pipeline.limit import LimitDataset
from ..pipeline.log_sample import LogSampleDataset
from ..pipeline.order_plan import SequentialPlan, ShuffledPlan
from ..pipeline.stage import SavableDataset
from ..pipeline.worker_config import WorkerConfig
from .chain import ChainOptions, build_chain

if TYPE_CHECKING:
    from ..samples.task_encoder import TaskEncoder

__all__ = ["LoadedDatasets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDatasets:
    """The leaves of a run, each with what decides its order; all tuples are of one length.

    Attributes:
        leaves: The datasets.
        slice_lengths: Neighbouring samples that are read together.
        epochs_together: Each leaf's ``shuffle_over_epochs_multiplier``.
        weights: Each leaf's share of a blend without end.
        repetitions: How often each leaf comes in a pass.
    """

    leaves: tuple[Leaf, ...]
    slice_lengths: tuple[int, ...]
    epochs_together: tuple[int | None, ...]
    weights: tuple[float, ...]
    repetitions: tuple[float, ...]

    def train_chain(
        self,
        task_encoder: TaskEncoder[Any, Any, Any, Any],
        *,
        worker_config: WorkerConfig,
        batch_size: int | None,
        batch_drop_last: bool = False,
        packing_buffer_size: int | None = None,
        virtual_epoch_length: int = 0,
        shuffle_buffer_size: int | None = None,
        repeat: bool = True,
        even_ranks: bool = False,
    ) -> SavableDataset[Any]:
        """Build the chain for training; the arguments are those of ``get_train_dataset``.

        Raises:
            ConfigError: An argument is out of range.
        """
        if shuffle_buffer_size is not None and shuffle_buffer_size < 0:
            raise ConfigError(f"expected shuffle_buffer_size of at least 0, or None, found {shuffle_buffer_size}")
        if virtual_epoch_length < 0:
            raise ConfigError(f"expected a virtual_epoch_length of at least 0, found {virtual_epoch_length}")
        options = ChainOptions(
            task_encoder=task_encoder,
            batch_size=batch_size,
            drop_last=batch_drop_last,
            packing_buffer_size=packing_buffer_size,
            repeats=repeat,
            worker_config=worker_config,
        )
        plan = ShuffledPlan(
            slice_lengths=self.slice_lengths,
            shuffle_buffer=shuffle_buffer_size or 0,
            epochs_together=self.epochs_together,
            weights=self.weights,
            repetitions=None if repeat else self.repetitions,
            deal=options.deal,
        )
        chain = _logged(build_chain(self.leaves, plan, options), "train")
        if even_ranks and not repeat:
            chain = EvenRanksDataset(chain)
        return EpochizeDataset(chain, virtual_epoch_length) if virtual_epoch_length else chain

    def val_chain(
        self,
        task_encoder: TaskEncoder[Any, Any, Any, Any],
        *,
        worker_config: WorkerConfig,
        batch_size: int | None,
        batch_drop_last: bool = False,
        packing_buffer_size: int | None = None,
        limit: int | None = None,
        even_ranks: bool = False,
    ) -> SavableDataset[Any]:
        """Build the chain for validation; the arguments are those of ``get_val_dataset``.

        Raises:
            ConfigError: An argument is out of range.
        """
        options = ChainOptions(
            task_encoder=task_encoder,
            batch_size=batch_size,
            drop_last=batch_drop_last,
            packing_buffer_size=packing_buffer_size,
            repeats=False,
            worker_config=worker_config,
        )
        chain = _logged(build_chain(self.leaves, SequentialPlan(deal=options.deal), options), "val")
        if even_ranks:
            chain = EvenRanksDataset(chain)
        return chain if limit is None else LimitDataset(chain, limit)


def _logged(chain: SavableDataset[Any], mode: Literal["train", "val"]) -> SavableDataset[Any]:
    """Log the micro-batches where the worker config asks for it."""
    config = chain.worker_config
    return LogSampleDataset(chain, mode) if config.worker_debug_path is not None and config.worker_log_level else chain
