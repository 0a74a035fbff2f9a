"""Check that the folder of a new dataset is new."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...engine.journal import AlreadyDoneError, Job, decode_job, output_exists
from ...errors import ConfigError, StorageError
from ...format.nv_meta import FOLDER, INFO_JSON, LOCK, REQUEST_JSON, WORK_FOLDER
from ...format.unfinished import remove_left_files, remove_leftovers, remove_work_folder
from ...storage import LocalStorage, Storage, read_document


def _written_by(storage: Storage) -> Job | None:
    """Return the job that has written the dataset in a folder; None if there is no dataset, or no record of it."""
    name = f"{FOLDER}/{REQUEST_JSON}"
    if not (storage.exists(INFO_JSON) and storage.exists(name)):
        return None
    return decode_job(read_document(storage, name))


def check_not_written(
    storage: Storage, work_folder: str, job: Job, complete: Callable[[], object] = lambda: None
) -> None:
    """Raise an error if a run has written the dataset in a folder; remove what it has left.

    Args:
        complete: Called if it was a run of the same job, which may have been killed after the commit.

    Raises:
        AlreadyDoneError: It was a run of the same job.
        ConfigError: The job had another request.
    """
    written = _written_by(storage)
    if written is None:
        return
    error = output_exists(written, job, at=storage.path(""))
    if isinstance(error, AlreadyDoneError):
        complete()
    with storage.lock(LOCK):
        remove_left_files(storage)
        for folder in (WORK_FOLDER, work_folder):
            remove_work_folder(storage, folder)
    raise error


def check_new_folder(
    storage: Storage, work_folder: str, *, hint: str, command: str = "", may_have_files: bool = False
) -> None:
    """Check that a folder is new or empty; remove what a finished run has left in a prepared dataset.

    Args:
        hint: What to do if it is a dataset.
        command: Command whose datasets pass, for :func:`check_not_written`.
        may_have_files: Only check that it is not a dataset.
    """
    path = storage.path("")
    written = _written_by(storage) if command else None
    if written is not None and written.command == command:
        return
    # A dataset is never written over.
    if storage.exists(INFO_JSON):
        remove_leftovers(storage, work_folder)
        raise ConfigError("this folder is a prepared dataset", at=path, hint=hint)
    if may_have_files:
        return
    if isinstance(storage, LocalStorage) and not os.path.isdir(path):
        if os.path.lexists(path):
            raise StorageError("expected a folder, found a file", path=path, hint="name another folder")
        return
    # New shards are not mixed with other files.
    first = next(iter(storage.list("")), None)
    if first is not None:
        raise ConfigError(f"expected a new or empty folder, found {first.name}", at=path, hint="name another folder")
