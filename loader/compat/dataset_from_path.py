"""``load_dataset``: open a dataset or metadataset as an object, for code that builds the chain by hand."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..format.data_kind import data_kind
from ..format.dataset_ref import DOCUMENT_CHOICES
from ..format.documents.subset import SubsetRange
from ..metadataset.documents.parse import parse_metadataset
from ..metadataset.joins.prepare_metadataset import prepare_metadataset
from ..metadataset.plans.inherited_settings import combine_epochs_together
from ..metadataset.plans.plan_leaves import TraversedDatasetReference, traverse_metadataset
from ..pipeline.contract.worker_config import WorkerConfig
from ..samples.encoding.task_encoder import DefaultTaskEncoder, TaskEncoder
from ..storage import EPath, open_parent, read_document
from ..training.datasets.dataset_factory import BaseCoreDatasetFactory, DatasetSubset
from ..training.datasets.open_sources import open_leaves
from ..training.datasets.run_datasets import LoadedDatasets
from .dataset_from_config import get_dataset_from_config


@dataclass(frozen=True, kw_only=True)
class DatasetLoaderInterface(ABC):
    """A path that can be loaded, and the choices made about it.

    Args:
        path: Folder of a prepared dataset, a file of samples or a metadataset.
        split_part: Part of the split, for calls that name none.
        subflavors: Labels of all samples.
        shuffle_over_epochs_multiplier: Number of epochs that are shuffled together.
        split_config: Name of the split file in ``.nv-meta``.
        dataset_config: Name of the dataset file in ``.nv-meta``.
        meta_folder: Folder to use instead of ``.nv-meta``.

    >>> loader = load_dataset("photos")
    >>> isinstance(loader, DatasetLoaderInterface), loader.traverse(split_part="train")[0].split_part
    (True, 'train')
    """

    path: str | os.PathLike[str]
    split_part: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    shuffle_over_epochs_multiplier: int | None = 1
    split_config: str | None = None
    dataset_config: str | None = None
    meta_folder: str | os.PathLike[str] | None = None

    def __repr__(self) -> str:
        path = os.fspath(self.path)
        return f"<{type(self).__name__} of {path}: opens it for training; open_dataset({path!r}) shows its samples>"

    def get_datasets(
        self,
        *,
        training: bool,
        split_part: str | None = None,
        worker_config: WorkerConfig | None = None,
        subflavors: Mapping[str, Any] | None = None,
        shuffle_over_epochs_multiplier: int | None = 1,
        task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
        max_samples_per_sequence: int | None = None,
        subset: DatasetSubset | Sequence[SubsetRange] | None = None,
        **kwargs: Any,
    ) -> LoadedDatasets:
        """Open the datasets: the argument of a task encoder's ``build_train_datasets`` and ``build_val_datasets``.

        Args:
            training: Use weights and repetitions; otherwise datasets follow one another.
            split_part: Part of the split.
            worker_config: Ranks, workers and lanes, for chains that are built on the datasets by hand.
            subflavors: Labels of all samples; they replace other labels of the same name.
            shuffle_over_epochs_multiplier: Number of epochs that are shuffled together, times this object's number.
            task_encoder: The task encoder whose decoder is used.
            max_samples_per_sequence: Length of a slice: neighbouring samples that are read one after another.
            subset: The samples of each dataset to use; by default all.
            **kwargs: ``trust_code`` and others of :func:`~loader.training.datasets.get_datasets.get_train_dataset`.

        Raises:
            StorageError: A path is missing, or a folder is not prepared.
            ConfigError: A file is invalid, or there is no such split part.
            TrustError: A dataset needs to run code, and the caller does not allow it.
        """
        choices: dict[str, Any] = {**{name: getattr(self, name) for name in DOCUMENT_CHOICES}, **kwargs}
        leaves = open_leaves(
            self.get_datasets,
            self.path,
            {**choices, "subset": subset, "subflavors": {**self.subflavors, **(subflavors or {})}},
            task_encoder=task_encoder or DefaultTaskEncoder(),
            training=training,
            slice_length=max_samples_per_sequence,
            split_part=split_part or self.split_part or ("train" if training else "val"),
            epochs_together=combine_epochs_together(
                self.shuffle_over_epochs_multiplier, shuffle_over_epochs_multiplier
            ),
        )
        return LoadedDatasets.of(leaves, training=training, worker_config=worker_config)

    def prepare(self, split_part: str | None = None) -> Sequence[str]:  # noqa: ARG002 - all parts are prepared
        """Prepare the joins of a metadataset, for megatron-energon, too; a dataset has none.

        Returns:
            The metadatasets whose joins were prepared.
        """
        if not data_kind(self.path).is_mix:
            return ()
        return tuple(dict.fromkeys(report.file for report in prepare_metadataset(self.path)))

    def post_initialize(self, mds_path: str | os.PathLike[str] | None = None) -> None:  # noqa: B027 - not abstract
        """Do nothing: documents are read when datasets are opened. Code written for megatron-energon calls it."""

    def traverse(
        self,
        mds_path: str | os.PathLike[str] | None = None,  # noqa: ARG002 - accepted for code written for megatron-energon
        *,
        split_part: str,
    ) -> list[TraversedDatasetReference]:
        """List the datasets at the path, without opening any."""
        if data_kind(self.path).is_mix:
            return traverse_metadataset(self.path, split_part=split_part)
        part = self.split_part or split_part
        return [
            TraversedDatasetReference(path=EPath(self.path), split_part=part, aux={}, subflavors=dict(self.subflavors))
        ]


class DatasetLoader(DatasetLoaderInterface):
    """A prepared dataset, or a file of samples.

    >>> photos = DatasetLoader(path="photos").get_dataset(training=False, split_part="train")
    >>> len(photos)
    4
    """

    def get_dataset(
        self,
        *,
        training: bool,
        split_part: str | None = None,
        worker_config: WorkerConfig | None = None,
        subflavors: Mapping[str, Any] | None = None,
        shuffle_over_epochs: int | None = 1,
        split_config: str | None = None,
        dataset_config: str | None = None,
        subset: DatasetSubset | Sequence[SubsetRange] | None = None,
        **kwargs: Any,
    ) -> BaseCoreDatasetFactory[Any]:
        """Open the dataset, to build a chain on by hand.

        Args:
            training: Shuffle a pass; otherwise samples come in the order of the shards.
            split_part: Part of the split.
            worker_config: Ranks, workers and lanes of the run; by default :meth:`WorkerConfig.default_worker_config`.
            subflavors: Labels of all samples; they replace other labels of the same name.
            shuffle_over_epochs: Number of passes that are shuffled together; -1 draws slices with replacement, without
                end; None does not shuffle.
            split_config: Name of the split file in ``.nv-meta``.
            dataset_config: Name of the dataset file in ``.nv-meta``.
            subset: The samples to use; by default all.
            **kwargs: As in :func:`~loader.compat.dataset_from_config.get_dataset_from_config`.

        Raises:
            StorageError: The folder is missing or not prepared.
            ConfigError: A file of the dataset is invalid.
            TrustError: The dataset needs to run code, and the caller does not allow it.
            TypeError: There is no such argument.
        """
        return get_dataset_from_config(
            self.path,
            training=training,
            split_part=split_part or self.split_part,
            worker_config=worker_config,
            subflavors={**self.subflavors, **(subflavors or {})},
            shuffle_over_epochs=shuffle_over_epochs,
            subset=subset,
            split_config=split_config or self.split_config,
            dataset_config=dataset_config or self.dataset_config,
            **{"meta_folder": self.meta_folder, **kwargs},
        )


class Metadataset(DatasetLoaderInterface):
    """A metadataset of version 1.

    >>> load_dataset("old_mix.yaml")
    <Metadataset of old_mix.yaml: opens it for training; open_dataset('old_mix.yaml') shows its samples>
    """


class MetadatasetV2(DatasetLoaderInterface):
    """A metadataset of version 2.

    >>> load_dataset("mix.yaml").prepare()
    ()
    >>> [dataset.path.name for dataset in load_dataset("mix.yaml").traverse(split_part="train")]
    ['photos']
    """


Recipe = MetadatasetV2
"""Name of :class:`MetadatasetV2` in version 8 of megatron-energon."""


def load_dataset(path: str | os.PathLike[str], **kwargs: Any) -> DatasetLoaderInterface:
    """Return the object that opens a dataset or metadataset, by the kind of the path.

    Args:
        path: Folder of a prepared dataset, a file of samples or a metadataset.
        **kwargs: Arguments of :class:`DatasetLoader`.

    Raises:
        ConfigError: The file is not a metadataset.
        StorageError: The file cannot be read.
    """
    if not data_kind(path).is_mix:
        return DatasetLoader(path=path, **kwargs)
    text = read_document(*open_parent(path)).decode("utf-8", "replace")
    spec, faults = parse_metadataset(text, file=os.fspath(path))
    if faults:
        raise ConfigError(file=os.fspath(path), faults=faults)
    return Metadataset(path=path, **kwargs) if spec.version == 1 else MetadatasetV2(path=path, **kwargs)
