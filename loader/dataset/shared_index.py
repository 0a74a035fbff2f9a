"""Push the index of a dataset to one file, pull it into a folder, and give read-only data a folder of the user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import UUID, uuid4

import msgspec

from ..errors import ConfigError, StorageError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_files import is_prepared
from ..format.index.current import read_uuid
from ..format.index.dataset_index import DatasetIndex
from ..format.index.layout import PART_SETS_FILE, Layout, encode_struct
from ..format.index.publish import STAGING
from ..format.index.writer import IndexWriter
from ..format.meta_folder import have_same_shards, index_folder_of
from ..format.nv_meta import DATASET_YAML, FOLDER, INDEX_FOLDER, SPLIT_JSON, SPLIT_YAML, is_shared_file
from ..format.records.folder_index import footer_of
from ..format.shared_index.index_file import ENDING, MAX_PART_BYTES, IndexFile, write_index_file
from ..prepare.destination import check_destination
from ..prepare.staging import STAGED_INDEX
from ..prepare.workspace import open_workspace
from ..storage import (
    HubFolder,
    LocalStorage,
    Storage,
    commit_of,
    is_hub_url,
    is_url,
    is_writable,
    lists_files,
    open_parent,
)
from ..storage.user_indexes import index_name
from .dataset import Dataset
from .opening import dataset_at

_OF_OTHERS = (SPLIT_YAML, SPLIT_JSON, DATASET_YAML)  # documents that decide what a run reads, and as what
_UUID_LENGTH = 36  # indexes of other tools have other names


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """An index that was pushed or pulled.

    Attributes:
        path: The index file, or the folder into which it was pulled.
        data: URL of the data that the index is of; empty for a folder of a machine.
        files: The files of ``.nv-meta`` that came with it.
        left: Those that were not taken: the folder has others, they are the split and sample type of others, or they
            are too large to be pushed.
        documents: The texts of the split file and of ``dataset.yaml``.
    """

    path: str
    data: str
    samples: int
    shards: int
    size_bytes: int
    files: Sequence[str]
    left: Sequence[str] = ()
    documents: Mapping[str, str] = field(default_factory=dict)


def push_index(ref: DatasetRef, destination: str) -> SharedIndex:
    """Write the index of a prepared dataset, its split, sample type, columns and filters, as one file.

    Args:
        destination: Path or URL of the file; a folder, or a URL that ends with ``/``, gets a name by the data.

    Raises:
        StorageError: The dataset is not prepared, or the file cannot be written.
    """
    dataset = dataset_at(ref)
    if dataset.is_file:
        raise ConfigError(
            f"expected a prepared folder, found {ref.kind.title}", at=ref.path, hint="a single file needs no index"
        )
    if destination.endswith("/") or (not is_url(destination) and os.path.isdir(destination)):
        destination = f"{destination.rstrip('/')}/{index_name(ref.path)}{ENDING}"
    if is_hub_url(destination):
        with HubFolder(destination, is_file=True) as folder:
            pushed = replace(push_index(ref, folder.path), path=destination)
            folder.publish(f"Add {destination.rpartition('/')[2]}")
        return pushed
    storage, name = open_parent(destination)
    # Write the columns of tar shards; tables have none, but the checksums of their footers.
    index, layout, every = dataset.index, _with_footers(dataset), dict(_files_of(dataset))
    files = {each: path for each, path in every.items() if dataset.storage.stat(path).size_bytes <= MAX_PART_BYTES}
    left = sorted(every.keys() - files)
    data = dataset.storage.url if is_url(ref.path) else ""  # a path of this machine is none of others
    with storage.create(name) as file:
        size_bytes = write_index_file(
            file,
            layout,
            map(index.rows_of, index.shards) if isinstance(index, DatasetIndex) else (),
            ((each, dataset.storage.read(path)) for each, path in files.items()),
            data=data,
            uuid=index.uuid if len(index.uuid) == _UUID_LENGTH else str(uuid4()),
        )
    return SharedIndex(storage.path(name), data, layout.samples, len(layout.shards), size_bytes, [*files], left)


def _files_of(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Yield the files that belong to the index: the name in the index file, and the name in the dataset."""
    storage, documents = dataset.storage, dataset.documents
    if documents.split_file is not None:
        name = SPLIT_JSON if documents.split_file.endswith(".json") else SPLIT_YAML
        yield name, f"{FOLDER}/{documents.split_file}"
    if storage.exists(f"{FOLDER}/{dataset.ref.dataset_file}"):
        yield DATASET_YAML, f"{FOLDER}/{dataset.ref.dataset_file}"
    part_sets = f"{INDEX_FOLDER}/{dataset.index.uuid}/{PART_SETS_FILE}"
    if storage.exists(part_sets) and not isinstance(dataset.index, DatasetIndex):  # they follow from its columns
        yield PART_SETS_FILE, part_sets
    for file in storage.list(FOLDER) if lists_files(storage) else ():
        name = file.name.removeprefix(f"{FOLDER}/")
        if is_shared_file(name) and name not in _OF_OTHERS:
            yield name, file.name


def _with_footers(dataset: Dataset) -> Layout:
    layout = dataset.index.layout
    shards = (msgspec.structs.replace(shard, footer=footer_of(dataset.storage, shard.info)) for shard in layout.shards)
    # An index in the repository itself names an earlier commit than the one at which its samples are read.
    commit = commit_of(dataset.storage.url) or layout.commit
    return msgspec.structs.replace(layout, shards=tuple(shards), commit=commit)


def pull_index(
    path: str,
    folder: str | None = None,
    *,
    data: str | None = None,
    with_split: bool = False,
    force: bool = False,
) -> SharedIndex:
    """Fetch an index file, check it, and put it as a meta folder into a folder.

    Args:
        path: Path or URL of the file.
        folder: The folder; None for one in the user's folder of indexes, where the data find it.
        data: Path or URL of the data, if it is not the one that the index was made of.
        with_split: Take the split and the sample type, too.
        force: Replace files that the folder has, and the metadata of another dataset.

    Raises:
        FormatError: The file is damaged, or no index.
        ConfigError: The folder has another use, or the data are not known.
    """
    source, name = open_parent(path)
    local = source.local_path(name)  # one transfer: its parts are many
    with LocalStorage(local.parent).open(local.name) as file:
        opened = IndexFile(file, source.path(name))
        layout, known = opened.manifest.layout, data or opened.manifest.data
        # Find the folder, and check that it has no other use.
        target = index_folder_of(known) if folder is None and known else folder or ""
        if not target or is_url(target):
            raise ConfigError(
                f"expected a folder of this machine for this index of {known or 'data at a local path'}",
                at=target or source.path(name),
                hint="name the data with --data PATH, or a folder, which --meta-folder names later",
            )
        storage = LocalStorage(name, replaced=(FOLDER, target))
        names = [shard.name for shard in layout.shards]
        check_destination(storage, DatasetRef(name, meta_folder=target), shards=names, force=force)
        parts = opened.manifest.files
        documents = {each: opened.read(parts[each]).decode("utf-8", "replace") for each in _OF_OTHERS if each in parts}
        taken = _publish(opened, storage, data=known, with_split=with_split, force=force)
    return SharedIndex(
        target,
        opened.manifest.data,
        layout.samples,
        len(names),
        file.size_bytes,
        taken,
        [each for each in parts if each not in taken],
        documents,
    )


def _publish(opened: IndexFile, storage: Storage, *, data: str, with_split: bool, force: bool) -> list[str]:
    """Write the index and the files that are taken under staging names, and publish them; return the files."""
    manifest, taken = opened.manifest, list[str]()
    index, renames = f"{INDEX_FOLDER}/{manifest.uuid}", list[tuple[str, str]]()
    with open_workspace(storage, None) as workspace:
        if force:
            storage.remove(index)
        if not storage.exists(f"{index}/layout.json"):
            _write_columns(opened, workspace.work)
            renames.append((STAGED_INDEX, index))
        for each, part in manifest.files.items():
            final = f"{index if each == PART_SETS_FILE else FOLDER}/{each}"
            if (with_split or each not in _OF_OTHERS) and (force or not storage.exists(final)):
                taken.append(each)
                workspace.work.write(f"{STAGING}/shared/{each}", opened.read(part))
                renames.append((f"{STAGING}/shared/{each}", final))
        shards, previous = manifest.layout.shards, read_uuid(storage)
        workspace.publish(
            UUID(manifest.uuid),
            shards,
            renames=renames,
            files={},
            previous=previous,
            removals=[],
            notes_shards=_are_at(data, manifest.layout),
        )
    return taken


def _are_at(data: str, layout: Layout) -> bool:
    """Return True if the shards of an index are at its URL; a file of others may name the shards of other data."""
    with suppress(StorageError):  # then the index is found by its URL alone
        return is_url(data) and have_same_shards(data, (shard.info for shard in layout.shards))
    return False


def _write_columns(opened: IndexFile, work: Storage) -> None:
    """Write the staged folder of the index."""
    layout = opened.manifest.layout
    if not opened.manifest.columns:
        work.write(f"{STAGED_INDEX}/layout.json", encode_struct(layout))
        return
    # All that follows from the columns is computed again, so that it cannot contradict them.
    with IndexWriter(work, STAGED_INDEX, durable=False) as writer:
        for entry, index in opened.shards():
            writer.add(entry.info, index)
        writer.finish(prepared_by=layout.prepared_by, commit=layout.commit)


def writable_ref(ref: DatasetRef, *, prepares: bool = False, is_trial: bool = False) -> DatasetRef:
    """Return the reference under which the metadata of a dataset are written.

    Data that refuse to be written, and name no other folder, get a folder in the user's folder of indexes, into which
    their ``.nv-meta`` is copied, or the index of others that was used.

    Args:
        prepares: The data are to be prepared: those without ``.nv-meta`` get a folder, too.
        is_trial: Nothing is written: data with ``.nv-meta`` keep it.
    """
    if ref.meta_folder is not None or ref.kind.format != "folder":
        return ref
    meta = ref.find_meta()
    storage = ref.storage(meta)
    if is_writable(storage, FOLDER) if meta.origin == "data" else meta.origin == "user":
        return ref
    # An index of others says how they use the data: prepare begins without it.
    has_index = is_prepared(storage) and not (prepares and meta.origin != "data")
    if is_trial if has_index else not (prepares and storage.exists("")):
        return ref
    folder = index_folder_of(ref.path)
    if has_index:
        with tempfile.TemporaryDirectory() as temporary:
            pull_index(push_index(ref, f"{temporary}/").path, folder, with_split=True)
    return replace(ref, meta_folder=folder)
