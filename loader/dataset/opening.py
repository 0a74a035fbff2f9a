"""Open the dataset of a reference."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar, cast

from ..errors import ConfigError, StorageError
from ..format.data_kind import data_kind
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_files import read_shard_info
from ..format.documents.next_command import command_for_ref, fault_of_file
from ..format.index.current import index_folders, prefetch_documents
from ..format.index.layout import ROW_COLUMNS, AbstractIndex
from ..format.index.object_commit import read_committed_documents
from ..format.meta_folder import MetaFolder, have_same_shards
from ..format.nv_meta import FOLDER, INDEX_FOLDER
from ..format.records.folder_index import open_record_index
from ..format.unfinished import check_finished
from ..storage import FilesAhead, Storage, missing_folder, pin_indexed_commit
from .dataset import Dataset, Documents
from .records import RecordDataset, SingleFile
from .tar import TarDataset, open_tar_index, tar_index

_Index = TypeVar("_Index", bound=AbstractIndex)
_MAX_LISTINGS = 5  # of a dataset that is being prepared


def dataset_at(ref: DatasetRef | str | os.PathLike[str], **options: Any) -> Dataset:
    """Open a prepared folder, or a single file of numbered samples.

    Args:
        ref: The folder or file; a path uses the documents of the default names.
        **options: ``reads_samples`` and ``rechecks``, as in :func:`folder_at`.

    Raises:
        ConfigError: The path is of a metadataset, or ``.info.json`` is invalid.
        FormatError: The file is damaged, or its index is missing.
        StorageError: The dataset is missing or not prepared.
    """
    ref = DatasetRef.of(ref)
    if ref.kind.is_mix:
        raise ConfigError(
            "expected a dataset, found a metadataset",
            at=ref.path,
            hint=f"name one of its datasets, which are listed by: energon info {ref.path}",
        )
    return SingleFile(ref) if ref.kind.is_file else folder_at(ref, **options)


def folder_at(
    ref: DatasetRef | str | os.PathLike[str], *, reads_samples: bool = False, rechecks: bool = False
) -> Dataset:
    """Open a prepared folder.

    Args:
        ref: The folder; a path uses the documents of the default names.
        reads_samples: The index is read sample by sample: its columns are mapped at their first use, and all columns
            of a remote dataset are fetched at the same time.
        rechecks: As in :class:`.Dataset`.

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: ``.info.json`` is invalid.
    """
    ref = DatasetRef.of(ref)
    meta = ref.find_meta()
    storage = ref.storage(meta)
    if storage.ahead is not None:
        _prefetch(storage, storage.ahead, ref, with_index=reads_samples)
    # The names of the shards tell their format.
    counts = read_shard_info(storage)
    if counts is None:
        raise _not_prepared(storage, ref, meta)
    if not data_kind(next(iter(counts), "")).is_file:
        # The index is opened at its first use, once for the dataset and its documents.
        open_tars = cache(
            partial(_opened, ref, meta, storage, partial(open_tar_index, storage, counts, reads_samples=reads_samples))
        )
        documents = Documents(ref, storage, counts, open_tars)
        may_differ = meta.origin not in ("data", "temporary")
        return TarDataset(documents, counts, open_tars, rechecks=rechecks, checks_parts=may_differ)
    open_records = cache(partial(_opened, ref, meta, storage, partial(open_record_index, storage, counts)))
    return RecordDataset(Documents(ref, storage, counts, open_records), counts, open_records, rechecks=rechecks)


def _opened(ref: DatasetRef, meta: MetaFolder, storage: Storage, open_index: Callable[[], _Index]) -> _Index:
    index = open_index()
    if meta.origin == "data":
        return index
    shards = [shard.info for shard in index.layout.shards]
    if meta.origin == "same shards" and not have_same_shards(storage.url, shards):
        raise StorageError(
            "the shards are others than those of the index that their names, sizes and versions led to",
            path=storage.url,
            hint=f"run energon prepare on them; the index is {storage.path(FOLDER)}",
        )
    # Samples are read from the commit that was indexed, wherever the branch is now. An index in the repository itself
    # is of a later commit than the one that was indexed, or even of another repository.
    if not meta.path.startswith(f"{ref.path}/"):
        try:
            pin_indexed_commit(storage.url, index.layout.commit)
        except StorageError:
            # A commit of another repository, whose shards are the same, says nothing of this one.
            if not have_same_shards(storage.url, shards):
                raise
    return index


def tars_at(ref: DatasetRef | str | os.PathLike[str]) -> TarDataset:
    """Open a prepared folder of tar shards, with its index."""
    dataset = folder_at(ref)
    tar_index(dataset)  # raises for other formats
    return cast("TarDataset", dataset)


def _prefetch(storage: Storage, ahead: FilesAhead, ref: DatasetRef, *, with_index: bool) -> None:
    for _ in range(_MAX_LISTINGS):
        ahead.list_once(FOLDER)
        read_committed_documents(storage)
        prefetch_documents(storage, [ref.dataset_file, ref.split_file])
        # Samples are read soon: fetch the columns of the index, too.
        if with_index:
            for uuid in index_folders(storage)[:1]:
                ahead.prefetch_fixed([f"{INDEX_FOLDER}/{uuid}/{name}.npy" for name in ROW_COLUMNS])
        if ahead.settle_prefetched():
            break


def _not_prepared(storage: Storage, ref: DatasetRef, meta: MetaFolder) -> StorageError:
    if not storage.exists(""):
        return missing_folder(storage)
    check_finished(storage)
    path = storage.path("")
    fault = fault_of_file(path)
    if fault is not None:
        return StorageError(fault[0], path=path, hint=fault[1])
    where = f".info.json in {storage.path(FOLDER)}" if meta.origin != "data" else ".nv-meta/.info.json"
    return StorageError(
        f"this folder is not a prepared dataset: it has no {where}",
        path=path,
        hint=command_for_ref(ref),
    )
