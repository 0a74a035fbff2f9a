"""``get_dataset_from_config``: a prepared dataset as a factory of the class that its ``dataset.yaml`` names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.documents.dataset_config import DatasetConfig, is_own_module
from ...format.documents.load_request import is_metadataset
from ...format.nv_meta import DATASET_YAML, FOLDER, SPLIT_YAML
from ...pipeline.contract.worker_config import WorkerConfig
from ...samples.building.dataset_code import dataset_class_of
from ...samples.building.described_dataset import arguments_of_config, instantiate
from ...storage import EPath
from ..datasets.dataset_factory import BaseCoreDatasetFactory
from . import webdatasets
from .jsonl_factory import DefaultCrudeJsonlDatasetFactory
from .webdataset_factory import BaseWebdatasetFactory, StandardWebdatasetFactory

__all__ = ["get_dataset_from_config"]


def get_dataset_from_config(
    path: str | os.PathLike[str],
    *,
    dataset_config: str | None = None,
    split_config: str | None = None,
    split_part: str | None = None,
    training: bool = True,
    subflavors: Mapping[str, Any] | None = None,
    worker_config: WorkerConfig | None = None,
    sample_type: type[Any] | None = None,
    trust_code: bool = False,
    **kwargs: Any,
) -> BaseCoreDatasetFactory[Any]:
    """Give a dataset to build a chain on by hand: its ``build()`` reads, decodes and makes samples.

    Args:
        path: The folder of a prepared dataset, or a JSONL file.
        dataset_config: Which dataset file of ``.nv-meta`` to use.
        split_config: Which split file of ``.nv-meta`` to use.
        split_part: Which part of its split; by default ``"train"`` or ``"val"``.
        training: A pass is shuffled; else samples come as they lie.
        subflavors: Labels of all samples; they win over those of ``dataset.yaml``.
        worker_config: How the run is spread; by default :meth:`WorkerConfig.default_worker_config`.
        sample_type: The class that its samples must be of.
        trust_code: Code and pickles of the dataset may run.
        **kwargs: Others that the dataset's class takes: ``shuffle_over_epochs``, ``max_samples_per_sequence``,
            ``decoder`` …

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: A file of the dataset says something wrong, its samples are of another type, or a class of the
            user's own does not take what it is given.
        TrustError: The dataset asks to run code, and the caller does not allow it.
        TypeError: There is no such argument.
    """
    common: dict[str, Any] = {"training": training, "worker_config": worker_config, **kwargs}
    if os.fspath(path).endswith(".jsonl"):
        lines = DefaultCrudeJsonlDatasetFactory(path, subflavors=subflavors, **common)
        return _checked(lines, lines.__sample_type__, sample_type)
    if is_metadataset(path):
        raise ConfigError(
            "this is a metadataset, which may name several datasets",
            file=os.fspath(path),
            hint="give load_dataset() it",
        )
    folder = DatasetFolder(path, split_config=split_config or SPLIT_YAML, dataset_config=dataset_config or DATASET_YAML)
    config = folder.config or DatasetConfig(sample_type="CrudeSample", crude=True)
    dataset_class = _class_of(config, trust_code=trust_code)
    given = arguments_of_config(config, trust_code=trust_code)
    common |= {"split_part": split_part, "split_config": split_config, "trust_code": trust_code}
    common["subflavors"] = {**config.subflavors, **(subflavors or {})}
    if is_own_module(config.dataset_module):
        given = {name: value for name, value in given.items() if name not in config.extra}
        if not issubclass(dataset_class, StandardWebdatasetFactory):
            given.pop("sample_type", None)  # the class says it
        made = dataset_class(EPath(path), **{**given, **common})
    else:
        made = instantiate(dataset_class, folder.storage.local_path(FOLDER), {**given, **common})
    return _checked(made, made.source.builder.sample_class, sample_type, file=folder.storage.path(FOLDER))


def _class_of(config: DatasetConfig, *, trust_code: bool) -> type[BaseWebdatasetFactory[Any]]:
    if is_own_module(config.dataset_module):
        name = "CrudeWebdataset" if config.crude else config.dataset_class or ""
        own: type[BaseWebdatasetFactory[Any]] = getattr(webdatasets, name, StandardWebdatasetFactory)
        return own
    found = dataset_class_of(config, trust_code=trust_code)
    if isinstance(found, type) and issubclass(found, BaseWebdatasetFactory):
        return found
    raise ConfigError(
        f"{config.dataset_module}.{config.dataset_class} is no dataset class",
        hint="derive it from DefaultDecoderWebdatasetFactory",
    )


def _checked(
    made: BaseCoreDatasetFactory[Any], found: type[Any], expected: type[Any] | None, *, file: str | None = None
) -> BaseCoreDatasetFactory[Any]:
    if expected is not None and not issubclass(found, expected):
        raise ConfigError(
            f"expected samples of {expected.__name__}, found {found.__name__}",
            file=file,
            hint="name another sample_type, or another dataset_config",
        )
    return made
