"""The places of a prepare: the dataset, and the folder of files that await the commit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from ..errors import StorageError
from ..format.documents.dataset_files import commit_mark, encode_shard_info
from ..format.index.current import stale_indexes
from ..format.index.journal import download_scans
from ..format.index.layout import ShardEntry
from ..format.index.object_commit import ObjectCommit, finish_object_commit
from ..format.index.publish import STAGING, commit, finish_interrupted_commit, is_commit_pending, stage_files
from ..format.meta_folder import note_index
from ..format.nv_meta import (
    FOLDER,
    INDEX_UUID,
    INFO_JSON,
    LOCK,
    WORK_FOLDER,
)
from ..format.unfinished import WRITING_FOLDER, remove_left_files
from ..storage import LocalStorage, RemoteStorage, Storage, is_writable


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The places of a prepare."""

    storage: Storage
    # where the files wait for the commit, with the journal: the dataset itself, or a temporary folder for one in an
    # object store
    work: Storage
    # publishes renames (staged name in ``work``, final name), the last one of ``.info.json``, and removes files that
    # the new state does not need
    commit: Callable[[Sequence[tuple[str, str]], Sequence[str]], None]

    def publish(
        self,
        identity: UUID,
        shards: Iterable[ShardEntry],
        *,
        renames: Sequence[tuple[str, str]],
        files: Mapping[str, bytes],
        previous: str | None,
        removals: Sequence[str],
        notes_shards: bool = True,
    ) -> str:
        """Commit an index; return its uuid.

        Args:
            identity: The uuid.
            shards: Shards of the index.
            renames: Pairs (staged name in ``work``, final name).
            files: Further files, name → contents, published after them.
            previous: The uuid of the previous index, which running jobs may still read; all others are removed.
            removals: Further files to remove.
            notes_shards: In a folder of indexes, let data of the same shards find the index.
        """
        shards = list(shards)
        info = encode_shard_info({shard.name: shard.samples for shard in shards})
        if self.work is not self.storage:
            info += commit_mark(identity.int)
        last = {INDEX_UUID: str(identity).encode(), INFO_JSON: info}
        stale = stale_indexes(self.storage, kept=previous)
        self.commit([*renames, *stage_files(self.work, {**files, **last})], [*stale, *removals])
        if notes_shards:
            note_index(self.storage.path(FOLDER), str(identity), (shard.info for shard in shards))
        return str(identity)

    def forget_scans(self) -> None:
        """Remove the scans of an interrupted prepare, and all staged files."""
        self.storage.remove(WORK_FOLDER)


@contextmanager
def _temporary_folder() -> Iterator[LocalStorage]:
    with tempfile.TemporaryDirectory(prefix="energon-prepare-", ignore_cleanup_errors=True) as folder:
        yield LocalStorage(folder)


@contextmanager
def open_workspace(storage: Storage, check: Callable[[], None] | None) -> Iterator[Workspace]:
    """Open the places of a prepare; the end removes staged files, and leaves the journal of an unfinished prepare.

    Args:
        check: Prevents the commit by an error, where no lock does: in an object store.
    """
    # An object store gets the files from a temporary folder of this machine.
    if isinstance(storage, RemoteStorage):
        finish_object_commit(storage)
        with _temporary_folder() as work:
            download_scans(storage, work)
            yield Workspace(storage=storage, work=work, commit=ObjectCommit(storage, work, check))
        return

    # A local dataset is its own work folder, which one prepare uses at a time.
    with storage.lock(LOCK):
        finish_interrupted_commit(storage)
        storage.remove(STAGING)
        if not storage.exists(WRITING_FOLDER):  # whose writers may run on other machines
            remove_left_files(storage)
        try:
            yield Workspace(storage=storage, work=storage, commit=partial(commit, storage))
        finally:
            # The journal stays for the next prepare, and so do the files of an interrupted commit, which it finishes.
            if not is_commit_pending(storage):
                storage.remove(STAGING)


@contextmanager
def open_trial_workspace(storage: Storage) -> Iterator[Workspace]:
    """Open a workspace that writes only to a temporary folder, and commits nothing."""

    def refuse(*_: object) -> None:
        raise StorageError("a trial commits nothing", path=storage.path(""))

    with _temporary_folder() as work:
        yield Workspace(storage=storage, work=work, commit=refuse)


@contextmanager
def open_part_workspace(storage: Storage) -> Iterator[Storage]:
    """Open the folder of the journal for a part of a prepare; parts run together, but not with a whole prepare."""
    if isinstance(storage, RemoteStorage):
        with _temporary_folder() as work:
            yield work
        return
    with storage.lock(LOCK, shared=True):
        if is_commit_pending(storage):
            raise StorageError(
                "a prepare was interrupted while it committed",
                path=storage.path(""),
                hint="run the same command again: with --merge if shares were committed",
            )
        yield storage


def unwritable_folder(storage: Storage) -> StorageError | None:
    """Return the error that a prepare of a dataset would end with; None if its ``.nv-meta`` can be written."""
    if is_writable(storage, FOLDER) or os.path.isfile(storage.path(FOLDER)):  # a file there is another error
        return None
    is_own = storage.path(FOLDER) == os.path.join(storage.path(""), FOLDER)
    return StorageError(
        f"no permission to write {'.nv-meta in this folder' if is_own else 'to this folder'}",
        path=storage.path("") if is_own else storage.path(FOLDER),
        hint="keep it in another folder: --meta-folder DIR; or run as a user who has the permission"
        if is_own
        else "name another folder, or run as a user who has the permission",
    )
