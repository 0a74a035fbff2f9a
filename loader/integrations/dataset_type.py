"""What lies at a path: a dataset of which kind, or none."""

from __future__ import annotations

import os
from enum import Enum

from ..errors import StorageError
from ..format.documents.load_request import is_metadataset
from ..format.nv_meta import INDEX_SQLITE, INFO_JSON, INFO_YAML
from ..storage import open_storage

__all__ = ["EnergonDatasetType", "get_dataset_type"]


class EnergonDatasetType(Enum):
    """The kinds of datasets."""

    METADATASET = "metadataset"
    WEBDATASET = "webdataset"
    JSONL = "jsonl"
    FILESYSTEM = "filesystem"
    INVALID = "invalid"


def get_dataset_type(path: str | os.PathLike[str]) -> EnergonDatasetType:
    """Tell of which kind a dataset is, without opening it.

    Returns:
        ``FILESYSTEM`` for a folder that ``energon prepare-media`` was run on; ``INVALID`` where there is no prepared
        dataset.

    >>> get_dataset_type("/no/such/folder").value
    'invalid'
    """
    text = os.fspath(path)
    folder, name = os.path.split(text.rstrip("/"))
    try:
        if is_metadataset(text) or text.endswith(".jsonl"):
            if not open_storage(folder or ".").exists(name):
                return EnergonDatasetType.INVALID
            return EnergonDatasetType.METADATASET if is_metadataset(text) else EnergonDatasetType.JSONL
        exists = open_storage(text).exists
        if exists(INFO_JSON) or exists(INFO_YAML):
            return EnergonDatasetType.WEBDATASET
        return EnergonDatasetType.FILESYSTEM if exists(INDEX_SQLITE) else EnergonDatasetType.INVALID
    except StorageError:  # the URL of another machine
        return EnergonDatasetType.INVALID
