"""List the datasets that paths name: folders, files, unprepared tar shards, and the datasets of metadatasets."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..dataset.opening import dataset_at
from ..dataset.query import (
    SampleQuery,
    UnknownValueError,
    find_samples,
    foreign_keys_error,
    keys_of_folder,
    samples_of_keys,
    unknown_key_error,
    unknown_names,
)
from ..dataset.unprepared.tar_index import with_index
from ..format.dataset_ref import DatasetRef
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
        name = os.path.basename(path.rstrip("/")) or "dataset"
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name}~{self._counts[name]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDataset:
    """A dataset that a path names, or that a metadataset reads.

    Attributes:
        dataset_configs: Names of the dataset files by which a metadataset reads it; None is the default one.
        split_parts: The split parts that are requested; empty for all samples.
        metadataset: The metadataset; None if the path is its own.
    """

    ref: DatasetRef
    dataset_configs: tuple[str | None, ...] = (None,)
    split_parts: tuple[str, ...] = ()
    metadataset: str | None = None

    @property
    def path(self) -> str:
        return self.ref.path


def named_datasets(refs: Sequence[DatasetRef], *, split_parts: Sequence[str] = ()) -> list[NamedDataset]:
    """Return the datasets that references name, each once, in order.

    A metadataset represents its leaves and the members of its joins, whole: weights, filters and subsets do not
    apply.

    Args:
        refs: Datasets and metadatasets; the split file of a metadataset overrides those that it names.
        split_parts: Only these split parts; of a metadataset, the datasets and split parts that its splits of these
            names read. Empty for all.
    """
    by_ref: dict[DatasetRef, NamedDataset] = {}
    # A metadataset names several datasets, and several references may name one dataset.
    for ref in refs:
        if ref.kind.is_mix:
            named = _of_metadataset(ref, split_parts)
        else:
            named = iter([NamedDataset(ref=ref, split_parts=(*split_parts,))])
        for dataset in named:
            # A dataset that comes again stays where it is, and gets the further configurations and split parts.
            other = by_ref.setdefault(dataset.ref, dataset)
            by_ref[dataset.ref] = replace(
                other,
                dataset_configs=tuple(dict.fromkeys((*other.dataset_configs, *dataset.dataset_configs))),
                split_parts=tuple(dict.fromkeys((*other.split_parts, *dataset.split_parts))),
            )
    return list(by_ref.values())


def _of_metadataset(ref: DatasetRef, split_parts: Sequence[str]) -> Iterator[NamedDataset]:
    # Read the leaves of the requested splits, and the members of their joins.
    planned = plan_splits(ref, split_parts=split_parts or None).checked()
    for leaf in (leaf for tree in planned.trees.values() for leaf in tree.leaves()):
        for member in leaf.datasets:
            yield NamedDataset(
                ref=replace(member.ref, dataset_config=None),
                dataset_configs=(member.ref.dataset_config,),
                split_parts=(member.split_part,) if split_parts else (),
                metadataset=ref.path,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDataset:
    """A dataset that is open.

    Attributes:
        folder: Its shards and samples; of tar shards that are not prepared, with a temporary index.
    """

    name: str
    dataset: NamedDataset
    folder: Dataset

    @property
    def is_temporary(self) -> bool:
        return self.folder.ref != self.dataset.ref


@contextmanager
def open_datasets(datasets: Sequence[NamedDataset], *, keys: Sequence[str] = ()) -> Iterator[list[OpenDataset]]:
    """Open datasets until the block ends; tar shards that are not prepared are indexed in a temporary folder.

    Args:
        keys: If each of these keys names its shard, no other shard is indexed.
    """
    names = DatasetNames()
    with ExitStack() as stack:
        opened = []
        for dataset in datasets:
            folder = dataset_at(with_index(dataset.ref, stack, keys=keys))
            stack.callback(folder.close)
            opened.append(OpenDataset(name=names.add(dataset.path), dataset=dataset, folder=folder))
        yield opened


class NumberedDatasets:
    """Datasets whose samples are numbered through all of them.

    Attributes:
        folders: The datasets.
        starts: Shape (datasets + 1,): the number of the first sample of each dataset, and of all samples.
    """

    def __init__(self, datasets: Mapping[str, Dataset]) -> None:
        self._names, self.folders = [*datasets], [*datasets.values()]
        self.starts = np.cumsum([0, *(len(folder.index) for folder in self.folders)])

    def numbers(self, samples: Iterable[IntArray]) -> IntArray:
        """Return the numbers of samples; ``samples`` has the numbers in each dataset."""
        return np.concatenate([start + some for start, some in zip(self.starts[:-1], samples, strict=True)])

    def sample(self, row: int) -> tuple[int, int]:
        """Return the position of a sample's dataset, and its number there."""
        position = int(self.starts.searchsorted(row, "right")) - 1
        return position, row - int(self.starts[position])

    def full_key(self, row: int) -> str:
        """Return the key of a sample, with the name of its dataset if there are several."""
        position, sample = self.sample(row)
        key = self.folders[position].index.full_key(sample)
        return f"{self._names[position]}/{key}" if len(self.folders) > 1 else key


# Find the samples of several datasets that a query chooses.


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSamples:
    """The samples of one dataset.

    Attributes:
        numbers: Numbers of its chosen samples, ascending.
        keys: The keys of the query that it has; None if the query names no keys.
        lacks: What the condition names and the dataset does not have, so that no sample is chosen; empty otherwise.
    """

    opened: OpenDataset
    numbers: IntArray
    keys: tuple[str, ...] | None = None
    lacks: str = ""


def choose_samples(datasets: Sequence[OpenDataset], query: SampleQuery, *, at: str) -> list[ChosenSamples]:
    """Return the samples of each dataset that a query chooses.

    Each key must be in at least one of the datasets, unless it is meant in another one. A dataset without a column or
    part of the condition has no chosen sample; one of the datasets must have all of them.

    Args:
        datasets: The datasets; their split parts replace the query's.
    """
    # Find the keys that each dataset has, and the names that it lacks.
    keys = _keys_of_each(datasets, query, at)
    lacking = [unknown_names(opened.folder, query) if len(datasets) > 1 else [] for opened in datasets]
    if all(lacking):
        lacking = [[] for _ in datasets]  # the first dataset raises the error
    # Search the datasets that have all names.
    errors: list[UnknownValueError] = []
    chosen = []
    for opened, its_keys, names in zip(datasets, keys, lacking, strict=True):
        numbers = np.empty(0, np.int64)
        if not names and (its_keys is None or its_keys):
            parts = opened.dataset.split_parts or query.split_parts
            try:
                numbers = find_samples(opened.folder, replace(query, keys=its_keys, split_parts=parts))
            except UnknownValueError as error:  # of a value that was searched for in the samples
                errors.append(error)
                # A value that no dataset has is an error; the others only have no chosen samples.
                if len(errors) == len(datasets):
                    raise
                names.append(error.message.removeprefix("no sample has the "))
        chosen.append(
            ChosenSamples(
                opened=opened, numbers=numbers, keys=its_keys, lacks=f"no {' and no '.join(names)}" if names else ""
            )
        )
    return chosen


def _keys_of_each(datasets: Sequence[OpenDataset], query: SampleQuery, at: str) -> list[tuple[str, ...] | None]:
    if query.keys is None:
        return [None for _ in datasets]
    keys = [keys_of_folder(query.keys, query.origins, opened.folder) for opened in datasets]
    if query.keys and not any(keys):
        raise foreign_keys_error(query.origins, at=at)
    if len(datasets) == 1:
        return list(keys)  # its query names the unknown ones
    # Each key must be in one of the datasets that it is meant for.
    samples_by_key = [samples_of_keys(opened.folder, its_keys) for opened, its_keys in zip(datasets, keys, strict=True)]
    meant = dict.fromkeys(key for its_keys in keys for key in its_keys)
    unknown = [key for key in meant if not any(of_one.get(key) for of_one in samples_by_key)]
    if unknown:
        raise unknown_key_error([opened.folder for opened in datasets], unknown, at=at)
    return [tuple(key for key, samples in of_one.items() if samples) for of_one in samples_by_key]
