"""``load_dataset``: a dataset or metadataset as an object, for code that builds the chain itself."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ConfigError
from ...format.documents.load_request import is_metadataset
from ...metadataset.documents.parse import parse_metadataset
from ...metadataset.joins.prepare_metadataset import prepare_metadataset
from ...metadataset.plans.traverse import TraversedDatasetReference, traverse_metadataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...samples.encoding.task_encoder import DefaultTaskEncoder, TaskEncoder
from ...storage import open_storage
from ..datasets.dataset_factory import BaseCoreDatasetFactory
from ..datasets.open_sources import DatasetArguments
from ..datasets.run_datasets import LoadedDatasets
from .dataset_from_config import get_dataset_from_config

__all__ = ["DatasetLoader", "DatasetLoaderInterface", "Metadataset", "MetadatasetV2", "load_dataset"]


@dataclass(frozen=True, kw_only=True)
class DatasetLoaderInterface(ABC):
    """What can be loaded, by its path.

    Args:
        path: The folder of a prepared dataset, a JSONL file or a metadataset.
        split_part: Which part of its split, where none is asked for.
        subflavors: Labels of all samples.
        shuffle_over_epochs_multiplier: How many epochs are shuffled together.
        split_config: Which split file of ``.nv-meta`` to use.
        dataset_config: Which dataset file of ``.nv-meta`` to use.
    """

    path: str | os.PathLike[str]
    split_part: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    shuffle_over_epochs_multiplier: int | None = 1
    split_config: str | None = None
    dataset_config: str | None = None

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
        **kwargs: Any,
    ) -> LoadedDatasets:
        """Open the datasets: what a task encoder's ``build_train_datasets`` and ``build_val_datasets`` are given.

        Args:
            training: Weights and repetitions count; else datasets follow one another.
            split_part: Which part of the split.
            worker_config: How the run is spread, for chains that are built on the datasets by hand.
            subflavors: Labels of all samples; they win.
            shuffle_over_epochs_multiplier: How many epochs are shuffled together, times the loader's own.
            task_encoder: Whose decoder to use.
            max_samples_per_sequence: Neighbouring samples that are read one after another.
            **kwargs: ``trust_code`` and the others of :func:`~loader.training.datasets.get_datasets.get_train_dataset`.

        Raises:
            StorageError: A path is missing, or a folder not prepared.
            ConfigError: A file says something wrong, or no split part is named.
            TrustError: A dataset asks to run code, and the caller does not allow it.
        """
        given = {"split_config": self.split_config, "dataset_config": self.dataset_config, **kwargs}
        own, asked = self.shuffle_over_epochs_multiplier, shuffle_over_epochs_multiplier
        together = None if own is None or asked is None else -1 if -1 in {own, asked} else own * asked
        arguments = DatasetArguments.parse(
            "get_datasets",
            self.path,
            {**given, "subflavors": {**self.subflavors, **(subflavors or {})}},
            split_part=split_part or self.split_part or ("train" if training else "val"),
            epochs_together=together,
        )
        loaded = arguments.open(task_encoder or DefaultTaskEncoder(), training=training)
        return LoadedDatasets.of(
            loaded, slice_length=max_samples_per_sequence, training=training, worker_config=worker_config
        )

    def prepare(self, split_part: str | None = None) -> Sequence[str]:  # noqa: ARG002 - all parts are prepared
        """Prepare the joins of a metadataset; a dataset has none.

        Returns:
            The metadatasets whose joins were prepared.
        """
        if not is_metadataset(self.path):
            return ()
        return tuple(dict.fromkeys(report.file for report in prepare_metadataset(self.path)))

    def traverse(self, *, split_part: str) -> list[TraversedDatasetReference]:
        """List the datasets behind it, without looking at any."""
        if is_metadataset(self.path):
            return traverse_metadataset(self.path, split_part=split_part)
        path = os.path.abspath(os.fspath(self.path))
        part = self.split_part or split_part
        return [
            TraversedDatasetReference(path=path, split_part=part, aux={}, subflavors=dict(self.subflavors), place="")
        ]


class DatasetLoader(DatasetLoaderInterface):
    """A prepared dataset, or a JSONL file."""

    def get_dataset(
        self,
        *,
        training: bool,
        split_part: str | None = None,
        worker_config: WorkerConfig | None = None,
        subflavors: Mapping[str, Any] | None = None,
        split_config: str | None = None,
        dataset_config: str | None = None,
        **kwargs: Any,
    ) -> BaseCoreDatasetFactory[Any]:
        """Give the dataset, to build a chain on by hand.

        Args:
            training: A pass is shuffled; else samples come as they lie.
            split_part: Which part of its split.
            worker_config: How the run is spread; by default :meth:`WorkerConfig.default_worker_config`.
            subflavors: Labels of all samples; they win.
            split_config: Which split file of ``.nv-meta`` to use.
            dataset_config: Which dataset file of ``.nv-meta`` to use.
            **kwargs: As in :func:`~loader.training.factories.dataset_from_config.get_dataset_from_config`.

        Raises:
            StorageError: The folder is missing, or not prepared.
            ConfigError: A file of the dataset says something wrong.
            TrustError: The dataset asks to run code, and the caller does not allow it.
            TypeError: There is no such argument.
        """
        return get_dataset_from_config(
            self.path,
            training=training,
            split_part=split_part or self.split_part,
            worker_config=worker_config,
            subflavors={**self.subflavors, **(subflavors or {})},
            split_config=split_config or self.split_config,
            dataset_config=dataset_config or self.dataset_config,
            **kwargs,
        )


class Metadataset(DatasetLoaderInterface):
    """A metadataset of version 1."""


class MetadatasetV2(DatasetLoaderInterface):
    """A metadataset of version 2."""


def load_dataset(path: str | os.PathLike[str], **kwargs: Any) -> DatasetLoaderInterface:
    """Find out what a path is, and give what loads it.

    Args:
        path: The folder of a prepared dataset, a JSONL file or a metadataset.
        **kwargs: Arguments of :class:`DatasetLoader`.

    Raises:
        ConfigError: The file is no metadataset.
        StorageError: The file cannot be read.
    """
    if not is_metadataset(path):
        return DatasetLoader(path=path, **kwargs)
    folder, name = os.path.split(os.path.abspath(os.fspath(path)))
    text = open_storage(folder).read(name).decode("utf-8", "replace")
    spec, faults = parse_metadataset(text, file=os.fspath(path))
    if faults:
        raise ConfigError(file=os.fspath(path), faults=faults)
    return Metadataset(path=path, **kwargs) if spec.version == 1 else MetadatasetV2(path=path, **kwargs)
