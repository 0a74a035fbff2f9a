"""Open the datasets that paths name; those of a metadataset with their weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.documents.providers import is_metadataset, is_record_file
from ...format.nv_meta import SPLIT_YAML
from .dataset import BrowsedDataset

__all__ = ["BrowseRequest", "open_catalogue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseRequest:
    """The datasets to browse.

    Attributes:
        paths: Prepared datasets and metadatasets.
        split_config: Name of the split file; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``.
    """

    paths: Sequence[str]
    split_config: str | None = None
    meta_folder: str | None = None


def open_catalogue(request: BrowseRequest) -> list[BrowsedDataset]:
    """Open datasets; the names in the catalogue are unique and the same at each start.

    Raises:
        ConfigError: A document of a metadataset contains faults, or a path is no prepared folder.
        StorageError: A dataset is missing or not prepared.
    """
    found: list[BrowsedDataset] = []
    names: dict[str, int] = {}

    def unique(path: str) -> str:
        name = os.path.basename(path.rstrip("/")) or "dataset"
        names[name] = names.get(name, 0) + 1
        return name if names[name] == 1 else f"{name}~{names[name]}"

    for path in request.paths:
        if is_metadataset(path):
            found += _leaves(path, unique)
        elif is_record_file(path):
            raise ConfigError("expected a folder or a metadataset", at=path, hint="prepare the folder of this file")
        else:
            found.append(
                BrowsedDataset(
                    unique(path),
                    partial(
                        DatasetFolder,
                        path,
                        split_config=request.split_config or SPLIT_YAML,
                        meta_folder=request.meta_folder,
                    ),
                )
            )
    return found


def _leaves(path: str, unique: Callable[[str], str]) -> list[BrowsedDataset]:
    from ...metadataset.plans.plan_leaves import plan_splits  # only metadatasets need the planner

    planned = plan_splits(path)
    if planned.faults:
        raise ConfigError(file=planned.file, faults=planned.faults)
    found = []
    for split in planned.names:
        for leaf in planned.trees[split].leaves():
            if leaf.join is not None or is_record_file(leaf.path):
                continue  # shown by energon preview
            folder = partial(
                DatasetFolder, leaf.path, split_config=leaf.split_config or SPLIT_YAML, meta_folder=leaf.meta_folder
            )
            name = unique(leaf.path)
            found.append(
                BrowsedDataset(
                    name, folder, weight=leaf.weight, split_part=leaf.split_part, place=f"{split}: {leaf.place}"
                )
            )
    return found
