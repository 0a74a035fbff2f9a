"""Commit the files of a prepare in an object store."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ...errors import EnergonError, StorageError
from ...escaped_log import get_logger
from ...storage import LocalStorage, RemoteStorage, Storage
from ..documents.dataset_files import marked_index
from ..nv_meta import FOLDER, INDEX_FOLDER, INDEX_SQLITE, INFO_JSON, WORK_FOLDER

_log = get_logger(__name__)
_UPLOADS_AT_ONCE = 16
_DOCUMENTS = "documents"  # in the folder of an index


def read_committed_documents(storage: Storage) -> None:
    """Let a listed storage read the documents of a commit that was killed before it stored them under their names.

    Args:
        storage: The dataset, whose ``.nv-meta`` was listed if it can be.
    """
    if isinstance(storage, RemoteStorage) and storage.can_list:
        storage.read_instead(_unfinished(storage, _pending(storage)))


def _pending(storage: RemoteStorage) -> dict[str, str]:
    """Return the documents of the current index that are still in its folder: name → name there."""
    pending = [file.name for file in storage.list(INDEX_FOLDER) if _folder_of(file.name).endswith(f"/{_DOCUMENTS}")]
    sequence = marked_index(storage.read(INFO_JSON)) if pending and storage.exists(INFO_JSON) else None
    if sequence is None:
        return {}
    folder = _documents_folder(str(uuid.UUID(int=sequence)))
    return {f"{FOLDER}/{name[len(folder) + 1 :]}": name for name in pending if _folder_of(name) == folder}


def _unfinished(storage: RemoteStorage, pending: Mapping[str, str]) -> dict[str, str]:
    """Return the documents without those that were stored after the commit, by it or by a user who edited them."""

    def is_stored(name: str, file: str) -> bool:
        return storage.exists(name) and storage.stat(name).mtime_ns > storage.stat(file).mtime_ns

    return {name: file for name, file in pending.items() if not is_stored(name, file)}


def finish_object_commit(storage: RemoteStorage) -> None:
    """Store the documents of a killed commit under their names."""
    storage.read_instead({})
    pending = _pending(storage)
    for name, file in _unfinished(storage, pending).items():
        storage.put(name, storage.read(file))
    storage.remove_files(list(pending.values()))


def _documents_folder(identity: str) -> str:
    return f"{INDEX_FOLDER}/{identity}/{_DOCUMENTS}"


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def _in_threads(tasks: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(min(_UPLOADS_AT_ONCE, max(1, len(tasks)))) as threads:
        for future in [threads.submit(task) for task in tasks]:
            future.result()


class ObjectCommit:
    """The commit of a prepare to an object store. Create it before the prepare reads anything.

    Args:
        check: Called while the files are stored, before the commit; what it raises prevents the commit.
    """

    def __init__(self, storage: RemoteStorage, work: LocalStorage, check: Callable[[], None] | None = None) -> None:
        self._storage = storage
        self._work = work
        self._check = check
        self._info = b""
        self._versions: dict[str, str | None] = {INFO_JSON: self._current_version(INFO_JSON)}

    def _current_version(self, name: str) -> str | None:
        """Return the version of a file; None for a missing file."""
        try:
            return self._storage.stat(name).etag
        except StorageError as error:
            if error.is_missing:
                return None
            raise

    def __call__(self, renames: Sequence[tuple[str, str]], removals: Sequence[str] = ()) -> None:
        """Store staged files under their names, then the commit; then remove files, and the journal.

        Args:
            renames: Pairs (staged file or folder, final name), in order; the last one is ``.info.json``.
            removals: Files and folders that the new state does not need.
        """
        self._info = info = self._work.read(renames[-1][0])
        identity = str(uuid.UUID(int=marked_index(info) or 0))
        files = {final: staged for rename in renames[:-1] for staged, final in self._files(*rename)}
        documents = {
            name: staged for name, staged in files.items() if _folder_of(name) == FOLDER and name != INDEX_SQLITE
        }
        self._versions |= {name: self._current_version(name) for name in documents}
        for name in [name for name in documents if name.endswith(".py") and self._versions[name] is None]:
            # Readers find code by the names in dataset.yaml, so it is there before dataset.yaml names it.
            if self._storage.create_once(name, self._work.read(documents[name])):
                del documents[name], files[name]
        pending = {name: f"{_documents_folder(identity)}/{name[len(FOLDER) + 1 :]}" for name in documents}
        first = [self._put(final, staged) for final, staged in files.items() if final not in documents]
        first += [self._put(pending[name], staged) for name, staged in documents.items()]
        _in_threads([*first, *([] if self._check is None else [self._check])])
        self._put_info(info)
        _in_threads([lambda name=name: self._put_document(name, documents[name]) for name in documents])  # type: ignore[misc]
        self._remove([*removals, *pending.values(), WORK_FOLDER])

    def _remove(self, names: Sequence[str]) -> None:
        try:
            self._storage.remove_files([file for name in names for file in self._storage.names_of(name)])
        except StorageError as error:
            _log.warning("the dataset is prepared, but old files remain: %s", error)

    def _files(self, staged: str, final: str) -> Iterator[tuple[str, str]]:
        path = self._work.path(staged)
        if not os.path.isdir(path):
            yield staged, final
            return
        for name in sorted(os.listdir(path)):
            yield f"{staged}/{name}", f"{final}/{name}"

    def _put(self, final: str, staged: str) -> Callable[[], object]:
        return lambda: self._storage.upload(final, self._work.path(staged))

    def _put_if_unchanged(self, name: str, data: bytes) -> None:
        version = self._versions[name]
        if version is None:
            self._storage.put(name, data, if_absent=True)
        else:
            self._storage.put(name, data, if_etag=version)

    def _put_info(self, data: bytes) -> None:
        try:
            self._put_if_unchanged(INFO_JSON, data)
        except EnergonError:
            # The answer to an earlier try may have been lost: then the file is there, and the next try was refused.
            if self._has_committed(data):
                return
            if self._current_version(INFO_JSON) != self._versions[INFO_JSON]:
                raise StorageError(
                    "another prepare of this dataset has finished since this one began; its result is kept",
                    path=self._storage.path(INFO_JSON),
                    hint="run the same command again: shards that have not changed are not scanned again",
                ) from None
            raise

    def _has_committed(self, data: bytes) -> bool:
        self._storage.note_written(INFO_JSON)
        return self._current_version(INFO_JSON) is not None and self._storage.read(INFO_JSON) == data

    def _put_document(self, name: str, staged: str) -> None:
        """Store a document, unless a later prepare has done so."""
        data = self._work.read(staged)
        try:
            self._put_if_unchanged(name, data)
        except EnergonError:
            self._storage.note_written(name)
            self._versions[name] = self._current_version(name)  # before the check: a later commit changes it again
            if self._has_committed(self._info):
                self._put_if_unchanged(name, data)
