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


def check_single(ref: DatasetRef | str) -> None:
    """Check that a path is of one dataset.

    Raises:
        ConfigError: It is a metadataset.
    """
    path = DatasetRef.of(ref).path
    if is_metadataset(path):
        raise ConfigError("expected a dataset, found a metadataset", at=path, hint="name one of its datasets")


def open_prepared(ref: DatasetRef | str, *, split_parts: Sequence[str] = ()) -> list[OpenDataset]:
    """Open the dataset of a path, or the datasets of a metadataset.

    Args:
        ref: A prepared dataset, a single file of samples, or a metadataset.
        split_parts: Only these split parts; of a metadataset, what its splits of these names read.

    Raises:
        ConfigError: The metadataset has faults.
        FormatError: A single file is damaged or not indexed.
        StorageError: A dataset is missing or not prepared.
    """
    named = named_datasets([DatasetRef.of(ref)], split_parts=split_parts)
    return [OpenDataset(name=one.path, dataset=one, folder=dataset_at(one.ref)) for one in named]


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
