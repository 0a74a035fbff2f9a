"""List the exclusions of datasets, and undo the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...dataset.dataset import Dataset
from ...dataset.exclusions.change import undo_exclusion
from ...dataset.exclusions.journal import Exclusion, ExclusionFiles
from ...dataset.opening import dataset_at
from ...dataset.records import SingleFile
from ...dataset.split_parts import excluded_samples, open_filter
from ...errors import StorageError
from ...format.dataset_ref import DatasetRef
from ...format.nv_meta import FOLDER
from ...metadataset.datasets import OpenDataset, named_datasets
from ...storage import RemoteStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedExclusions:
    """The exclusions of a dataset.

    Attributes:
        path: The dataset.
        samples: Number of samples that the split file excludes, those of whole shards included.
        shards: Whole shards that the split file excludes.
        filters: Filter → number of samples that it keeps.
        exclusions: The entries of the journal, the oldest first.
        others: Entries of the split file that the journal does not have.
    """

    path: str
    samples: int
    shards: tuple[str, ...]
    filters: dict[str, int]
    exclusions: tuple[Exclusion, ...]
    others: tuple[str, ...]


def undo(ref: DatasetRef | str) -> list[tuple[str, Exclusion]]:
    """Undo the last exclusion of a dataset, or of the datasets of a metadataset.

    Of a metadataset, that is the latest exclusion of any of its datasets; if it was made by one command for several
    datasets, it is undone in all of them in which nothing was excluded since.

    Returns:
        Each dataset of which samples are included again, with what was undone; empty if there is nothing to undo.

    Raises:
        ConfigError: A split file is invalid.
        FormatError: A journal is damaged.
        StorageError: A dataset is not prepared, or a file cannot be written.
    """
    opened = open_prepared(ref)
    folders = {(one.folder.path, one.dataset.ref.folder): one for one in opened}  # of several split files, one journal
    last = [(one, _last_of(one)) for one in folders.values()]
    at = max((entry.at for _, entry in last if entry is not None), default=None)
    latest = next(((one, entry) for one, entry in last if entry is not None and entry.at == at), None)
    if latest is None:
        return []
    chosen = [latest[0]]
    if latest[1].group:
        chosen = [one for one, entry in last if entry is not None and entry.group == latest[1].group]
    for one in chosen:
        check_writable(one.folder)
    undone: list[tuple[str, Exclusion]] = []
    for one in chosen:
        while (entry := undo_exclusion(one.folder)) is not None:
            undone.append((one.dataset.path, entry))
            following = _last_of(one)
            if following is None or not entry.group or following.group != entry.group:
                break
    return undone


def _last_of(one: OpenDataset) -> Exclusion | None:
    journal = ExclusionFiles.of(one.folder).read_journal()
    return journal[-1] if journal else None


def list_exclusions(ref: DatasetRef | str) -> list[ListedExclusions]:
    """List what is excluded from a dataset, or from each dataset of a metadataset.

    Raises:
        ConfigError: A split file is invalid.
        FormatError: A journal or a filter is damaged.
        StorageError: A dataset is not prepared.
    """
    return [_listed(one) for one in open_prepared(ref)]


def _listed(one: OpenDataset) -> ListedExclusions:
    folder, files = one.folder, ExclusionFiles.of(one.folder)
    journal = files.read_journal()
    listed = folder.documents.split.exclude if folder.documents.split else ()
    known = {name for entry in journal for name in entry.names}
    return ListedExclusions(
        path=one.dataset.path,
        exclusions=journal,
        shards=tuple(sorted(folder.documents.split.excluded_shards())) if folder.documents.split else (),
        samples=len(excluded_samples(folder)) if folder.documents.split else 0,
        others=tuple(name for name in listed if name not in known),
        filters={name: len(open_filter(folder, name)) for name in files.filter_names()},
    )


# Open the datasets whose samples are to be excluded, and check that they can be changed.


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
