"""Push the index of a dataset to one file, pull it into a folder, and give read-only data a folder of the user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import msgspec

from ..errors import ConfigError
from ..format.data_kind import is_tar_file
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_files import is_prepared
from ..format.index.current import read_uuid
from ..format.index.dataset_index import DatasetIndex
from ..format.index.layout import PART_SETS_FILE, Layout, encode_struct
from ..format.index.publish import STAGING
from ..format.index.writer import IndexWriter
from ..format.nv_meta import DATASET_YAML, FOLDER, INDEX_FOLDER, SPLIT_JSON, SPLIT_YAML, is_shared_file
from ..format.records.folder_index import footer_of
from ..format.shared_index.index_file import ENDING, IndexFile, IndexFileWriter, is_uuid
from ..format.user_index import index_folder_of
from ..prepare.destination import check_destination
from ..prepare.staging import STAGED_INDEX
from ..prepare.workspace import open_workspace
from ..storage import LocalStorage, Storage, is_url, is_writable, lists_files, open_parent
from ..storage.user_indexes import index_name
from .dataset import Dataset
from .opening import dataset_at

_OF_OTHERS = (SPLIT_YAML, SPLIT_JSON, DATASET_YAML)  # documents that decide what a run reads, and as what


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedIndex:
    """An index file that was written."""

    path: str
    size_bytes: int
    samples: int
    shards: int
    files: tuple[str, ...]  # files of ``.nv-meta`` that it has


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledIndex:
    """An index that was put into a folder.

    Attributes:
        data: URL of the data that the index is of; empty for a folder of another machine.
        taken: The files of ``.nv-meta`` that came with it.
        left: Those that were not taken: the folder has others, or they are the split and sample type of others.
        documents: The texts of the split file and of ``dataset.yaml``.
    """

    folder: str
    data: str
    revision: str
    samples: int
    shards: int
    taken: tuple[str, ...]
    left: tuple[str, ...]
    documents: Mapping[str, str]


def push_index(ref: DatasetRef, destination: str) -> PushedIndex:
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
    storage, name = open_parent(destination)
    # Write the columns of tar shards; tables have none, but the checksums of their footers.
    index, layout = dataset.index, _with_footers(dataset)
    with storage.create(name) as file:
        writer = IndexFileWriter(file, layout)
        if isinstance(index, DatasetIndex):
            for shard in index.shards:
                writer.add_shard(index.rows_of(shard))
        files = dict(_files_of(dataset))
        for file_name, path in files.items():
            writer.add_file(file_name, dataset.storage.read(path))
        data = dataset.storage.url if is_url(ref.path) else ""
        writer.finish(data=data, uuid=index.uuid if is_uuid(index.uuid) else str(uuid4()))
    return PushedIndex(
        path=storage.path(name),
        size_bytes=writer.size_bytes,
        samples=layout.samples,
        shards=len(layout.shards),
        files=tuple(files),
    )


def _files_of(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Yield the files that belong to the index: the name in the index file, and the name in the dataset."""
    storage, documents = dataset.storage, dataset.documents
    if documents.split_file is not None:
        name = SPLIT_JSON if documents.split_file.endswith(".json") else SPLIT_YAML
        yield name, f"{FOLDER}/{documents.split_file}"
    if storage.exists(f"{FOLDER}/{dataset.ref.dataset_file}"):
        yield DATASET_YAML, f"{FOLDER}/{dataset.ref.dataset_file}"
    part_sets = f"{INDEX_FOLDER}/{dataset.index.uuid}/{PART_SETS_FILE}"
    if storage.exists(part_sets):
        yield PART_SETS_FILE, part_sets
    for file in storage.list(FOLDER) if lists_files(storage) else ():
        name = file.name.removeprefix(f"{FOLDER}/")
        if is_shared_file(name) and name not in _OF_OTHERS:
            yield name, file.name


def _with_footers(dataset: Dataset) -> Layout:
    layout = dataset.index.layout
    shards = (msgspec.structs.replace(shard, footer=footer_of(dataset.storage, shard.info)) for shard in layout.shards)
    return msgspec.structs.replace(layout, shards=tuple(shards))


def pull_index(
    path: str,
    folder: str | None = None,
    *,
    data: str | None = None,
    with_split: bool = False,
    force: bool = False,
) -> PulledIndex:
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
        manifest = opened.manifest
        # Find the folder, and check that it has no other use.
        known = data or manifest.data
        if folder is None and not known:
            raise ConfigError(
                "this index was made of data at a local path",
                at=source.path(name),
                hint="name the data with --data PATH, or a folder for the index, which --meta-folder names later",
            )
        target = index_folder_of(known) if folder is None else folder
        if is_url(target):
            raise ConfigError("expected a folder of this machine", at=target, hint="copy the index file to this URL")
        storage = LocalStorage(name, replaced=(FOLDER, target))
        names = [shard.name for shard in manifest.layout.shards]
        check_destination(storage, DatasetRef(name, meta_folder=target), shards=names, force=force)
        # Write the index under staging names, and publish it with the files that are taken.
        taken, left, documents = list[str](), list[str](), dict[str, str]()
        with open_workspace(storage, None) as workspace:
            index, renames = f"{INDEX_FOLDER}/{manifest.uuid}", list[tuple[str, str]]()
            if force:
                storage.remove(index)
            if not storage.exists(f"{index}/layout.json"):
                _write_columns(opened, workspace.work)
                renames.append((STAGED_INDEX, index))
            for file_name, contents in opened.files():
                final = f"{FOLDER}/{file_name}"
                if file_name in _OF_OTHERS:
                    documents[file_name] = contents.decode("utf-8", "replace")
                if file_name == PART_SETS_FILE:
                    if renames and not manifest.blocks:
                        workspace.work.write(f"{STAGED_INDEX}/{PART_SETS_FILE}", contents)
                elif (file_name in _OF_OTHERS and not with_split) or (storage.exists(final) and not force):
                    left.append(file_name)
                else:
                    taken.append(file_name)
                    staged = f"{STAGING}/shared/{file_name}"
                    workspace.work.write(staged, contents)
                    renames.append((staged, final))
            workspace.publish(
                UUID(manifest.uuid),
                manifest.layout.shards,
                renames=renames,
                files={},
                previous=read_uuid(storage),
                removals=[],
            )
    return PulledIndex(
        folder=target,
        data=manifest.data,
        revision=manifest.revision,
        samples=manifest.layout.samples,
        shards=len(names),
        taken=tuple(taken),
        left=tuple(left),
        documents=documents,
    )


def _write_columns(opened: IndexFile, work: Storage) -> None:
    """Write the staged folder of the index."""
    layout = opened.manifest.layout
    if not opened.manifest.blocks:
        work.write(f"{STAGED_INDEX}/layout.json", encode_struct(layout))
        return
    # All that follows from the columns is computed again, so that it cannot contradict them.
    with IndexWriter(work, STAGED_INDEX, durable=False) as writer:
        for entry, index in opened.shards():
            writer.add(entry.info, index)
        writer.finish(prepared_by=layout.prepared_by)


def writable_ref(ref: DatasetRef, *, prepares: bool = False, is_trial: bool = False) -> DatasetRef:
    """Return the reference under which the metadata of a dataset are written.

    Data that refuse to be written, and name no other folder, get a folder in the user's folder of indexes, into which
    their ``.nv-meta`` is copied.

    Args:
        prepares: The data are to be prepared: those without ``.nv-meta`` get a folder, too.
        is_trial: Nothing is written: data with ``.nv-meta`` keep it.
    """
    if ref.has_other_folder or ref.kind.format != "folder" or is_tar_file(ref.path):
        return ref
    storage = ref.storage()
    has_index = is_prepared(storage)
    if not (has_index or (prepares and storage.exists(""))) or is_writable(storage, FOLDER):
        return ref
    folder = index_folder_of(ref.path)
    if has_index and is_trial:
        return ref
    if has_index:
        with tempfile.TemporaryDirectory() as temporary:
            pull_index(push_index(ref, f"{temporary}/").path, folder, with_split=True)
    return replace(ref, meta_folder=folder)
