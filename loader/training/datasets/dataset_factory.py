"""What all dataset factories have: a dataset to build a chain of stages on by hand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from ...errors import ConfigError
from ...format.documents.subset import SubsetRange
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.decode import DecodeDataset
from ...pipeline.reading.order_plan import OrderPlan, SequentialPlan, ShuffledPlan
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.source import Source
from ...stores.file_store import FileStore
from .dataset_subset import DatasetSubset

__all__ = ["BaseCoreDatasetFactory"]

T_co = TypeVar("T_co", covariant=True)


class BaseCoreDatasetFactory(ABC, Generic[T_co]):
    """A dataset, and how a pass over it goes.

    Args:
        training: A pass is shuffled; else samples come as they lie.
        worker_config: How the run is spread; by default :meth:`WorkerConfig.default_worker_config`.
        shuffle_over_epochs: How many passes are shuffled together; -1 draws slices with replacement, without end; None
            does not shuffle.
        parallel_shard_iters: Accepted for code written for megatron-energon.
        max_samples_per_sequence: Neighbouring samples that are read one after another; None: a shard's.
        subset: Which samples are used; by default all.

    Raises:
        ConfigError: A number is out of range.
    """

    __sample_type__: ClassVar[type[Any] | None] = None

    def __init__(
        self,
        *,
        training: bool = True,
        worker_config: WorkerConfig | None = None,
        shuffle_over_epochs: int | None = 1,
        parallel_shard_iters: int | None = None,  # noqa: ARG002 - the order of samples has no use for it
        max_samples_per_sequence: int | None = None,
        subset: DatasetSubset | Sequence[SubsetRange] | None = None,
    ) -> None:
        if shuffle_over_epochs is not None and shuffle_over_epochs != -1 and shuffle_over_epochs < 1:
            raise ConfigError(f"expected shuffle_over_epochs to be -1, None or at least 1, found {shuffle_over_epochs}")
        if max_samples_per_sequence is not None and max_samples_per_sequence < 1:
            raise ConfigError(
                f"expected max_samples_per_sequence of at least 1, or None, found {max_samples_per_sequence}"
            )
        self.training = training
        self.worker_config = worker_config if worker_config is not None else WorkerConfig.default_worker_config()
        self.shuffle_over_epochs = shuffle_over_epochs
        self.max_samples_per_sequence = max_samples_per_sequence
        self.subset: tuple[SubsetRange, ...] = (
            subset.ranges if isinstance(subset, DatasetSubset) else tuple(subset or ())
        )

    @property
    @abstractmethod
    def source(self) -> Source:
        """The dataset, as the stages know it."""

    @abstractmethod
    def as_file_store(self) -> FileStore[Any]:
        """Give the parts of the dataset by name."""

    def build(self, worker_rotation_offset: int = 0) -> SavableDataset[T_co]:  # noqa: ARG002 - lanes are not rotated
        """Build the first stages of a chain: they read samples, decode them, and fill their fields.

        Args:
            worker_rotation_offset: Accepted for code written for megatron-energon.

        Returns:
            One pass over the dataset; a :class:`~loader.pipeline.stages.repeat.RepeatDataset` on it goes on.

        Raises:
            ConfigError: There is no such split part, or no sample is left.
            StorageError: The dataset is missing, or not prepared.
            TrustError: It asks to run code, and the caller does not allow it.
        """
        return DecodeDataset(ReadDataset((self.source,), self._plan(), worker_config=self.worker_config))

    def _plan(self) -> OrderPlan:
        if not self.training:
            return SequentialPlan(deal=1)
        has_end = self.shuffle_over_epochs != -1
        return ShuffledPlan(
            slice_lengths=(self.max_samples_per_sequence or self.source.largest_shard,),
            shuffle_buffer=0,
            epochs_together=(self.shuffle_over_epochs,),
            weights=(1.0,),
            repetitions=(1.0,) if has_end else None,
            deal=1 if has_end else None,
        )

    def __len__(self) -> int:
        """Give the number of samples, of all ranks and workers; excluded ones, which are skipped, count."""
        return self.source.samples

    def __bool__(self) -> bool:
        return True  # Python would ask for the length, and open the dataset for it

    def config(self) -> dict[str, Any]:
        """Give what tells this dataset from others, as plain data."""
        return {
            "type": f"{type(self).__module__}.{type(self).__qualname__}",
            "training": self.training,
            "shuffle_over_epochs": self.shuffle_over_epochs,
            "max_samples_per_sequence": self.max_samples_per_sequence,
            "subset": [str(one) for one in self.subset],
            "dataset": self.source.identity(),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source.describe()})"
