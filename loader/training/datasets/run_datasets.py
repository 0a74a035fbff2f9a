"""The datasets of a run, opened, and the chains that are built on them: what a task encoder's ``build_…`` hooks get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from .loaded_dataset import DatasetBlendMode, LeafFactory, LoadedDataset
from .open_leaf import LoadedLeaf

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
        weights: Each leaf's share of a blend without end; None where the mix is one of repetitions.
        repetitions: How often each leaf comes in a pass; None where the mix is one of weights, which has no pass.
        training: A pass over a dataset that is built by hand is shuffled.
        worker_config: How the run is spread; None: as :meth:`WorkerConfig.default_worker_config` says.
    """

    leaves: tuple[Leaf, ...]
    slice_lengths: tuple[int, ...]
    epochs_together: tuple[int | None, ...]
    weights: tuple[float, ...] | None = None
    repetitions: tuple[float, ...] | None = None
    training: bool = True
    worker_config: WorkerConfig | None = None

    @classmethod
    def of(
        cls,
        loaded: Sequence[LoadedLeaf],
        *,
        slice_length: int | None = None,
        training: bool = True,
        worker_config: WorkerConfig | None = None,
    ) -> LoadedDatasets:
        """Take over what metadatasets say of the leaves.

        Args:
            loaded: The leaves.
            slice_length: The caller's ``max_samples_per_sequence``; None reads whole shards.
            training: A pass over a dataset that is built by hand is shuffled.
            worker_config: How the run is spread.
        """
        leaves = tuple(one.leaf for one in loaded)
        weights = [one.plan.weight for one in loaded]
        repetitions = [one.plan.repetitions for one in loaded]
        is_weighted = len(loaded) > 1 and None not in weights
        return cls(
            leaves=leaves,
            slice_lengths=tuple(slice_length or leaf.largest_shard for leaf in leaves),
            epochs_together=tuple(one.plan.epochs_together for one in loaded),
            weights=tuple(weight or 1.0 for weight in weights) if is_weighted else None,
            repetitions=None if is_weighted else tuple(1.0 if times is None else times for times in repetitions),
            training=training,
            worker_config=worker_config,
        )

    @property
    def datasets(self) -> list[LoadedDataset]:
        """The datasets one by one, for code that composes their chain by hand."""
        mixed = self.blend_mode is DatasetBlendMode.SAMPLE_REPETITIONS
        return [
            LoadedDataset(
                dataset=LeafFactory(
                    leaf,
                    training=self.training,
                    worker_config=self.worker_config,
                    shuffle_over_epochs=together,
                    max_samples_per_sequence=length,
                ),
                weight=None if self.weights is None else self.weights[place],
                repetitions=self.repetitions[place] if mixed and self.repetitions is not None else None,
                aux=leaf.stores.aux,
            )
            for place, (leaf, together, length) in enumerate(
                zip(self.leaves, self.epochs_together, self.slice_lengths, strict=True)
            )
        ]

    @property
    def blend_mode(self) -> DatasetBlendMode:
        """What the datasets are mixed by."""
        if len(self.leaves) == 1 or not self.training:
            return DatasetBlendMode.NONE
        return DatasetBlendMode.SAMPLE_REPETITIONS if self.weights is None else DatasetBlendMode.DATASET_WEIGHT

    def __iter__(self) -> Iterator[LoadedDataset]:
        return iter(self.datasets)

    def __len__(self) -> int:
        return len(self.leaves)

    def __getitem__(self, place: int) -> LoadedDataset:
        return self.datasets[place]

    def _shares(self) -> tuple[float, ...]:
        """Give the weights of a blend without end: those that are given, or as many samples as a pass would have."""
        if self.weights is not None:
            return self.weights
        times = self.repetitions or (1.0,) * len(self.leaves)
        return tuple(leaf.samples * share for leaf, share in zip(self.leaves, times, strict=True))

    def _passes(self) -> tuple[float, ...]:
        """Give the repetitions of a pass.

        Raises:
            ConfigError: The mix is one of weights.
        """
        if self.repetitions is None:
            raise ConfigError(
                "a blend by weight has no end, so that repeat=False cannot say when a pass is over",
                do="say how often each dataset comes in a pass: blend_epochized, with repetitions instead of weights",
            )
        return self.repetitions

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
            weights=self._shares(),
            repetitions=None if repeat else self._passes(),
            deal=options.deal,
        )
        if plan.items([leaf.samples for leaf in self.leaves]) == 0:
            raise ConfigError(
                f"a pass over these datasets has no sample: they come {', '.join(map(str, self._passes()))} times",
                do="give more repetitions, or repeat=True",
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
