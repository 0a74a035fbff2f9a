"""Open the datasets whose samples are to be excluded, and check that they can be changed."""

from __future__ import annotations

from collections.abc import Sequence

from ...dataset.dataset import Dataset
from ...dataset.opening import dataset_at
from ...dataset.records import SingleFile
from ...errors import ConfigError, StorageError
from ...format.dataset_ref import DatasetRef
from ...format.documents.providers import is_metadataset
from ...format.nv_meta import FOLDER
from ...metadataset.datasets import OpenDataset, named_datasets
from ...storage import RemoteStorage


def check_single(path: str) -> None:
    """Check that a path is of one dataset.

    Raises:
        ConfigError: It is a metadataset.
    """
    if is_metadataset(path):
        raise ConfigError("expected a dataset, found a metadataset", at=path, hint="name one of its datasets")


def open_prepared(
    path: str, *, split_parts: Sequence[str] = (), split_config: str | None, meta_folder: str | None
) -> list[OpenDataset]:
    """Open the dataset of a path, or the datasets of a metadataset.

    Args:
        path: A prepared dataset, a single file of samples, or a metadataset.
        split_parts: Only these split parts; of a metadataset, what its splits of these names read.
        split_config: Name of the split file; None for the default one, or the one that the metadataset names.
        meta_folder: Folder to use instead of ``.nv-meta``.

    Raises:
        ConfigError: The metadataset has faults.
        FormatError: A single file is damaged or not indexed.
        StorageError: A dataset is missing or not prepared.
    """
    named = named_datasets([path], split_parts=split_parts, split_config=split_config, meta_folder=meta_folder)
    opened = (
        (one, dataset_at(DatasetRef(one.path, split_config=one.split_config, meta_folder=one.meta_folder)))
        for one in named
    )
    return [OpenDataset(name=one.path, dataset=one, place=one, folder=folder) for one, folder in opened]


def check_writable(folder: Dataset) -> None:
    """Check that files about exclusions can be written.

    Raises:
        StorageError: The dataset is read-only.
    """
    storage, place = folder.storage, "" if isinstance(folder, SingleFile) else FOLDER
    is_web_server = isinstance(storage, RemoteStorage) and not storage.can_list
    if is_web_server or not storage.is_writable(place):
        raise StorageError(
            "samples of this dataset cannot be excluded: it is read-only",
            path=storage.path(place),
            hint="no dataset was changed; make it writable, or copy it",
        )
