"""The base class of dataset factories, on which a chain of stages is built by hand; and the subset it may have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from math import lcm
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

from ...errors import ConfigError, EnergonError
from ...format.documents.subset import SampleRange, ShareRange, SubsetRange, resolve_subset
from ...own_names import canonical_name
from ...pipeline.contract.dataset_methods import set_direct_loader
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.decode import DecodeDataset
from ...pipeline.reading.order_plan import OrderPlan, SequentialPlan, ShuffledPlan
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.source import Source
from ...samples.encoding.task_encoder import set_stage_builder
from ...storage import EPath
from ...stores.file_store import FileStore
from .chain import checked_count
from .encoder_stages import EncoderStages

T_co = TypeVar("T_co", covariant=True)

# Every chain over files begins with a factory, so from here on datasets can be iterated, and encoders build stages.


def _open_direct_loader(dataset: SavableDataset[Any]) -> Any:
    """Open the loader of a dataset that is iterated directly.

    In a worker process of torch's DataLoader it loads the part of that worker, as if each worker were a rank.
    """
    from torch.utils.data import get_worker_info  # plans of runs do not need torch

    from ..loaders.data_loader import SavableDataLoader

    # Number the workers of all ranks as ranks of a larger run.
    config, info = dataset.worker_config, get_worker_info()
    workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
    ranks = config.world_size * workers
    # Copy the dataset, which keeps the ranks of the run.
    copied = copy(dataset)
    copied.worker_config = replace(
        config,
        rank=config.rank * workers + worker,
        world_size=ranks,
        num_workers=0,
        lanes=None if config.lanes is None else lcm(config.lanes, ranks),
    )
    return SavableDataLoader(copied)


set_direct_loader(_open_direct_loader)
set_stage_builder(EncoderStages())


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSubset:
    """A half-open range of sample numbers, a half-open range of shares of these samples, or both.

    Args:
        range: Shares from 0 to 1.
        absolute_range: Sample numbers; None is the end.

    Raises:
        ConfigError: A range is reversed or out of bounds.

    >>> DatasetSubset(range=(0.0, 0.5), absolute_range=(10, None)).compute_subset(110)
    (10, 60)
    """

    range: tuple[float, float] | None = None
    absolute_range: tuple[int, int | None] | None = None

    def __post_init__(self) -> None:
        if self.range is not None and not 0 <= self.range[0] <= self.range[1] <= 1:
            raise ConfigError(f"expected a range of shares with 0 <= start <= stop <= 1, found {self.range}")
        if self.absolute_range is not None:
            start, stop = self.absolute_range
            if start < 0 or (stop is not None and stop < start):
                raise ConfigError(f"expected a range of samples with 0 <= start <= stop, found {self.absolute_range}")

    def config(self) -> dict[str, Any]:
        return {"range": self.range, "absolute_range": self.absolute_range}

    @property
    def ranges(self) -> tuple[SubsetRange, ...]:
        collected: list[SubsetRange] = []
        if self.absolute_range is not None:
            collected.append(SampleRange(start=self.absolute_range[0], stop=self.absolute_range[1]))
        if self.range is not None:
            # Decimal fractions, not binary ones: 0.3 of 10 samples are exactly 3.
            start, stop = (Fraction(str(share)) for share in self.range)
            collected.append(ShareRange(start=start, stop=stop))
        return tuple(collected)

    def compute_subset(self, total_samples: int) -> tuple[int, int]:
        """Return the half-open range of samples, for a dataset of ``total_samples``.

        Raises:
            ConfigError: The range reaches beyond them.
        """
        return resolve_subset(self.ranges, total_samples)


def subset_ranges(subset: DatasetSubset | Sequence[SubsetRange] | None) -> tuple[SubsetRange, ...]:
    """Return the ranges of a subset as a caller may give it, the innermost first; none for all samples."""
    return subset.ranges if isinstance(subset, DatasetSubset) else tuple(subset or ())


class PassKeywords(TypedDict, total=False):
    """The arguments of :class:`BaseCoreDatasetFactory`, for the dataset classes that pass them on."""

    training: bool
    worker_config: WorkerConfig | None
    shuffle_over_epochs: int | None
    parallel_shard_iters: int | None
    max_samples_per_sequence: int | None
    subset: DatasetSubset | Sequence[SubsetRange] | None


class BaseCoreDatasetFactory(ABC, Generic[T_co]):
    """A dataset, and the order of a pass over it.

    Args:
        training: Shuffle a pass; otherwise samples come in the order of the shards.
        worker_config: Ranks, workers and lanes of the run; by default :meth:`WorkerConfig.default_worker_config`.
        shuffle_over_epochs: Number of passes that are shuffled together; -1 draws slices with replacement, without end;
            None does not shuffle.
        parallel_shard_iters: Accepted for code written for megatron-energon.
        max_samples_per_sequence: Length of a slice: neighbouring samples that are read one after another; None: whole
            shards.
        subset: The samples to use; by default all.

    Attributes:
        paths: Folders of shards, or the file of samples.
        subflavors: Labels of all samples.

    Raises:
        ConfigError: A number is out of range.

    >>> photos = get_dataset_from_config("photos", split_part="train", training=False)
    >>> isinstance(photos, BaseCoreDatasetFactory), len(photos)
    (True, 4)
    """

    __sample_type__: ClassVar[type[Any] | None] = None

    paths: list[EPath]
    subflavors: dict[str, Any]

    def __init__(
        self,
        *,
        training: bool = True,
        worker_config: WorkerConfig | None = None,
        shuffle_over_epochs: int | None = 1,
        parallel_shard_iters: int | None = None,
        max_samples_per_sequence: int | None = None,
        subset: DatasetSubset | Sequence[SubsetRange] | None = None,
    ) -> None:
        self.training = training
        self.worker_config = worker_config if worker_config is not None else WorkerConfig.default_worker_config()
        self.shuffle_over_epochs = checked_count("shuffle_over_epochs", shuffle_over_epochs, may_be_minus_1=True)
        self.parallel_shard_iters = parallel_shard_iters  # has no effect on the order
        self.max_samples_per_sequence = checked_count("max_samples_per_sequence", max_samples_per_sequence)
        self.subset = subset_ranges(subset)

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "source"}  # another process opens its own

    @property
    @abstractmethod
    def source(self) -> Source:
        """The source that the stages read."""

    @abstractmethod
    def as_file_store(self) -> FileStore[Any]:
        """Return the store of the dataset's parts, by name."""

    def build(self, worker_rotation_offset: int = 0) -> SavableDataset[T_co]:  # noqa: ARG002 - lanes are not rotated
        """Build the first stages of a chain: read samples, decode them, and fill their fields.

        Args:
            worker_rotation_offset: Accepted for code written for megatron-energon.

        Returns:
            One pass over the dataset; wrap it in a :class:`~loader.pipeline.stages.repeat.RepeatDataset` to repeat it.

        Raises:
            ConfigError: There is no such split part, or it has no samples.
            StorageError: The dataset is missing, or not prepared.
            TrustError: It needs to run code, and the caller does not allow it.
        """
        return DecodeDataset(ReadDataset((self.source,), self._plan(), worker_config=self.worker_config))

    def _plan(self) -> OrderPlan:
        if not self.training:
            return SequentialPlan(deal=1)
        has_end = self.shuffle_over_epochs != -1
        return ShuffledPlan(
            slice_lengths=(self.max_samples_per_sequence or self.source.members[0].selection.largest_shard,),
            shuffle_buffer=0,
            epochs_together=(self.shuffle_over_epochs,),
            weights=(1.0,),
            repetitions=(1.0,) if has_end else None,
            deal=1 if has_end else None,
        )

    def __len__(self) -> int:
        return self.source.samples

    def __bool__(self) -> bool:
        return True  # Python would call __len__, which opens the dataset

    def config(self) -> dict[str, Any]:
        """Return plain data that differs for other datasets and other arguments."""
        return {
            "type": f"{canonical_name(type(self).__module__)}.{type(self).__qualname__}",
            "training": self.training,
            "shuffle_over_epochs": self.shuffle_over_epochs,
            "max_samples_per_sequence": self.max_samples_per_sequence,
            "subset": [str(bound) for bound in self.subset],
            "dataset": self.source.identity(),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source.describe()})"


class DatasetBlendMode(Enum):
    """Kind of a mix of datasets."""

    NONE = "none"
    DATASET_WEIGHT = "dataset_weight"
    SAMPLE_REPETITIONS = "sample_repetitions"


class SourceFactory(BaseCoreDatasetFactory[Any]):
    """A factory for a source that is open already.

    Attributes:
        name: Name of the folder or file of samples; for a join, of its metadataset.
        path: Path of the folder or file of samples; for a join, of its metadataset.
        paths: Folder or file of samples; for a join, of each member.
        place: Place in the document that names it (``splits.val.blend[2]``); empty without a metadataset.
    """

    def __init__(self, source: Source, *, place: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._source = source
        request = source.request
        self.path = EPath(request.ref.path)
        self.name = self.path.name
        self.paths = [EPath(member.request.ref.path) for member in getattr(source, "members", (source,))]
        self.split_part = request.split_part
        builder = getattr(source.recipe, "builder", None)  # knows those of the dataset's own document
        self.subflavors = {**(builder.subflavors if builder is not None else {}), **request.subflavors}
        self.place = place

    @property
    def source(self) -> Source:
        return self._source

    def as_file_store(self) -> FileStore[Any]:
        store = self._source.recipe.stores.own
        if store is None:
            raise EnergonError(
                "samples of a join, a Parquet file or a folder of records have no names to look them up by",
                at=self._source.describe(),
            )
        return store


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDataset:
    """A dataset and its share of a mix.

    Attributes:
        dataset: The dataset; its ``build()`` starts a chain.
        weight: Share of a blend without end; None if the mix is one of repetitions.
        repetitions: Repetitions in a pass; None if the mix is one of weights.
        aux: Auxiliary stores by name.
    """

    dataset: BaseCoreDatasetFactory[Any]
    weight: float | None = None
    repetitions: float | None = None
    aux: Mapping[str, FileStore[Any]] = field(default_factory=dict)
