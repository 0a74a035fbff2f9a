"""List the datasets that paths name: folders, files, tar shards that are not prepared, and those of metadatasets."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ..dataset.dataset import Dataset
from ..dataset.opening import dataset_at
from ..dataset.unprepared.temporary_index import index_temporarily
from ..errors import ConfigError
from ..format.dataset_ref import DatasetRef
from ..format.documents.providers import data_path, is_metadataset, is_record_file
from ..format.prepare.plan import ProgressCallback
from .plans.plan_leaves import plan_splits


class DatasetNames:
    """Unique names of datasets: the last component of the path; for later ones of the same name, with a number.

    >>> names = DatasetNames()
    >>> [names.add(path) for path in ("/a/coco/", "/b/coco", "/b/sa1b", "/")]
    ['coco', 'coco~2', 'sa1b', 'dataset']
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, path: str) -> str:
        """Return the name of the next dataset."""
        name = os.path.basename(path.rstrip("/")) or "dataset"
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name}~{self._counts[name]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDataset:
    """A dataset that a path names, or that a metadataset reads.

    Attributes:
        path: The folder, file of samples, or tar file.
        meta_folder: Folder to use instead of ``.nv-meta``; None for ``.nv-meta``.
        split_config: Name of the split file; None for the default one.
        dataset_configs: Names of the dataset files by which a metadataset reads it; None is the default one.
        split_parts: The split parts that are requested; empty for all samples.
        metadataset: The metadataset; None if the path is its own.
        is_temporary: The metadata is that of a temporary index.
    """

    path: str
    meta_folder: str | None = None
    split_config: str | None = None
    dataset_configs: tuple[str | None, ...] = (None,)
    split_parts: tuple[str, ...] = ()
    metadataset: str | None = None
    is_temporary: bool = False

    @property
    def is_file(self) -> bool:
        """True for a single file of samples."""
        return is_record_file(data_path(self.path))


def named_datasets(
    paths: Sequence[str],
    *,
    split_parts: Sequence[str] = (),
    split_config: str | None = None,
    meta_folder: str | None = None,
) -> list[NamedDataset]:
    """Return the datasets that paths name, each once, in order.

    Those of a metadataset are its leaves and the members of its joins, whole: weights, filters and subsets do not
    apply.

    Args:
        paths: Datasets and metadatasets.
        split_parts: Only these split parts; of a metadataset, the datasets and split parts that its splits of these
            names read. Empty for all.
        split_config: Name of the split file; None for the default one, or the one that a metadataset names.
        meta_folder: Folder to use instead of the ``.nv-meta`` of a folder.

    Raises:
        ConfigError: A metadataset contains faults, or does not have the split.
        StorageError: It cannot be read.
    """
    found: dict[tuple[str, str | None, str | None], NamedDataset] = {}
    for path in paths:
        if is_metadataset(path):
            named = _of_metadataset(path, split_parts, split_config)
        else:
            one = NamedDataset(
                path=path, meta_folder=meta_folder, split_config=split_config, split_parts=(*split_parts,)
            )
            named = iter([one])
        for one in named:
            identity = (one.path, one.meta_folder, one.split_config)
            other = found.setdefault(identity, one)
            found[identity] = replace(
                other,
                dataset_configs=tuple(dict.fromkeys((*other.dataset_configs, *one.dataset_configs))),
                split_parts=tuple(dict.fromkeys((*other.split_parts, *one.split_parts))),
            )
    return list(found.values())


def _of_metadataset(path: str, split_parts: Sequence[str], split_config: str | None) -> Iterator[NamedDataset]:
    planned = plan_splits(path, split_parts=split_parts or None, split_config=split_config)
    if planned.faults:
        raise ConfigError(file=planned.file, faults=planned.faults)
    for leaf in (leaf for tree in planned.trees.values() for leaf in tree.leaves()):
        for one in (leaf,) if leaf.join is None else leaf.join.members:
            yield NamedDataset(
                path=one.path,
                meta_folder=one.meta_folder,
                split_config=one.split_config,
                dataset_configs=(one.dataset_config,),
                split_parts=(one.split_part,) if split_parts else (),
                metadataset=path,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDataset:
    """A dataset that is open.

    Attributes:
        name: Its name, unique among the datasets that are open together.
        dataset: The dataset.
        place: The same; of tar shards that are not prepared, their folder with a temporary index.
        folder: Its shards and samples.
    """

    name: str
    dataset: NamedDataset
    place: NamedDataset
    folder: Dataset


@contextmanager
def open_datasets(
    datasets: Sequence[NamedDataset], on_progress: ProgressCallback | None = None, *, keys: Sequence[str] = ()
) -> Iterator[list[OpenDataset]]:
    """Open datasets until the block ends; tar shards that are not prepared are indexed in a temporary folder.

    Args:
        datasets: The datasets.
        on_progress: Called after each shard that is indexed.
        keys: If each of these keys names its shard, no other shard is indexed.

    Raises:
        FormatError: Shards that are not prepared are damaged, or a file of samples is damaged or not indexed.
        StorageError: A dataset is missing.
    """
    names = DatasetNames()
    with ExitStack() as stack:
        found = []
        for one in datasets:
            place = _index_if_unprepared(one, stack, on_progress, keys)
            folder = dataset_at(DatasetRef(place.path, split_config=place.split_config, meta_folder=place.meta_folder))
            stack.callback(folder.close)
            found.append(OpenDataset(name=names.add(one.path), dataset=one, place=place, folder=folder))
        yield found


def _index_if_unprepared(
    dataset: NamedDataset, stack: ExitStack, on_progress: ProgressCallback | None, keys: Sequence[str]
) -> NamedDataset:
    """Return a dataset; for tar shards that are not prepared, with a temporary index that ``stack`` removes."""
    if dataset.is_file:
        return dataset
    indexed = index_temporarily(dataset.path, dataset.meta_folder, stack, on_progress, keys=keys)
    if indexed is None:
        return dataset
    return replace(dataset, path=indexed[0], meta_folder=indexed[1], is_temporary=True)
