"""The places of a prepare: the dataset, and the folder in which its files wait for the commit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from ...storage import LocalStorage, RemoteStorage, Storage
from ..documents.dataset_files import encode_shard_info
from ..index.journal import download_scans
from ..index.object_commit import ObjectCommit, commit_mark
from ..index.publish import STAGING, commit, finish_interrupted_commit, is_commit_pending
from ..nv_meta import LOCK, WORK_FOLDER

__all__ = ["Workspace", "open_workspace", "scan_folder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The places of a prepare.

    Attributes:
        storage: The dataset.
        work: Where the files wait for the commit, with the journal: the dataset itself, or a temporary folder for one
            in an object store.
        commit: Publishes renames (staged name in ``work``, final name), the last one of ``.info.json``, and removes
            files that the new state does not need.
        has_recovered: True if the commit of an interrupted prepare was finished.
    """

    storage: Storage
    work: Storage
    commit: Callable[[Sequence[tuple[str, str]], Sequence[str]], None]
    has_recovered: bool = False

    def shard_info(self, shard_counts: Mapping[str, int], identity: UUID) -> bytes:
        """Return the content of ``.info.json`` for the commit of an index."""
        data = encode_shard_info(shard_counts)
        return data if self.work is self.storage else data + commit_mark(identity.int)

    def forget_scans(self) -> None:
        """Remove the scans of an interrupted prepare, and all staged files."""
        self.storage.remove(WORK_FOLDER)


@contextmanager
def scan_folder(storage: Storage) -> Iterator[Storage]:
    """Return the place of the journal: the dataset itself, or a temporary copy of that of one in an object store."""
    if isinstance(storage, RemoteStorage):
        with _copied_scans(storage) as work:
            yield work
    else:
        yield storage


@contextmanager
def _copied_scans(storage: RemoteStorage) -> Iterator[LocalStorage]:
    with tempfile.TemporaryDirectory(prefix="energon-prepare-", ignore_cleanup_errors=True) as folder:
        work = LocalStorage(folder)
        download_scans(storage, work)
        yield work


@contextmanager
def open_workspace(storage: Storage) -> Iterator[Workspace]:
    """Open the places of a prepare; at the end, staged files are removed, and the journal of an unfinished one stays.

    Raises:
        StorageError: Another prepare runs in this folder, or it cannot be written.
    """
    if isinstance(storage, RemoteStorage):
        with _copied_scans(storage) as work:
            upload = ObjectCommit(storage, work)
            yield Workspace(storage=storage, work=work, commit=upload)
        return

    def rename_staged(renames: Sequence[tuple[str, str]], removals: Sequence[str]) -> None:
        commit(storage, renames=renames, removals=removals)

    with storage.lock(LOCK):
        has_recovered = finish_interrupted_commit(storage)
        storage.remove(STAGING)
        try:
            yield Workspace(storage=storage, work=storage, commit=rename_staged, has_recovered=has_recovered)
        finally:
            # The journal stays for the next prepare, and so do the files of an interrupted commit, which it finishes.
            if not is_commit_pending(storage):
                storage.remove(STAGING)
