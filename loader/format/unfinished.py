"""Find and remove what interrupted runs have left in a folder, and name the command line that continues them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from ..engine.share import COMMAND_LINE
from ..errors import EnergonError, StorageError, plural
from ..storage import (
    COMMAND_FILE,
    LocalStorage,
    Storage,
    left_command,
    process_of_partial,
    rename_file,
    size_of,
)
from .nv_meta import FOLDER, INFO_JSON

IMPORT_FOLDER = f"{FOLDER}/.import"  # the folder of an unfinished import
WRITING_FOLDER = f"{FOLDER}/.writing"  # the folder of unfinished writers of shards

_LOCK = f"{IMPORT_FOLDER}/lock"
FAILED_RUN = f"{IMPORT_FOLDER}/failed"  # its error, which would end the next run of the same command, too
_MAX_ADVICE = 10_000  # bytes that are read
_DONE = ".done"


def remember_command(folder: str) -> None:
    """Record the command line in a folder of this machine, from which :func:`left_command` reads it."""
    typed = COMMAND_LINE.get()
    if typed is not None:
        with open(os.path.join(folder, COMMAND_FILE), "wb") as file:
            file.write(msgspec.json.encode({"line": " ".join(typed()), "folder": os.getcwd()}))


def remember_failure(storage: Storage, error: EnergonError) -> None:
    """Record an error that would end the next run of the same command, too; each run first removes the record."""
    with suppress(StorageError):
        storage.write(FAILED_RUN, f"{error.message}; {error.hint}".encode())


def remove_work_folder(storage: Storage, folder: str) -> None:
    """Remove the folder of finished work in one step, so that no kill leaves a part of its records.

    On this machine, it loses its name first, and all at once.
    """
    if isinstance(storage, LocalStorage) and storage.exists(folder):
        storage.remove(f"{folder}{_DONE}")
        rename_file(storage, folder, f"{folder}{_DONE}")
        remove_leftovers(storage, folder)
    else:
        storage.remove(folder)


def remove_leftovers(storage: Storage, folder: str) -> None:
    """Remove what a kill during :func:`remove_work_folder` has left."""
    if isinstance(storage, LocalStorage):
        storage.remove(f"{folder}{_DONE}")


def left_files(storage: Storage) -> list[str]:
    """Return the unfinished files in a folder of this machine, the ``.nv-meta`` included."""
    if not isinstance(storage, LocalStorage):
        return []
    top = storage.path("")
    files: list[str] = []
    for base, folders, names in os.walk(top):
        prefix = os.path.relpath(base, top)
        folders[:] = [name for name in folders if not name.startswith(".") or (prefix == "." and name == FOLDER)]
        files += [os.path.normpath(os.path.join(prefix, name)) for name in names if process_of_partial(name)]
    return sorted(files)


def remove_left_files(storage: Storage, *, of_running: bool = False, names: Sequence[str] = ()) -> None:
    """Remove unfinished files from a folder that this run has locked.

    Args:
        of_running: Also files of processes that run on this machine, which are workers of this run.
        names: Only files of these names, whatever their extension: processes of other machines may write others.
    """
    starts = tuple(f".{name}." for name in names)
    for name in left_files(storage):
        if starts and not name.rpartition("/")[2].startswith(starts):
            continue
        if of_running or not _is_running(process_of_partial(name)):
            storage.remove(name)


def _is_running(process: int) -> bool:
    with suppress(ProcessLookupError):
        try:
            os.kill(process, 0)
        except (PermissionError, OverflowError):
            return True
        return True
    return False


def left_sentence(storage: Storage) -> str:
    """Return what a run that did not finish has left, with its size; no text for nothing, and for a prepared URL."""
    if not isinstance(storage, LocalStorage) and storage.exists(INFO_JSON):
        return ""
    files = left_files(storage)
    pieces = []
    if files:
        size = sum(size_of(storage.path(name)) for name in files)
        pieces.append(f"{plural(len(files), 'unfinished file')} ({size:,} bytes), first {files[0]}")
    if storage.exists(IMPORT_FOLDER):
        shards = [file.size_bytes for file in storage.list("") if file.name.endswith(".tar")]
        pieces.append(
            f"{plural(len(shards), 'finished shard')} ({sum(shards):,} bytes)" if shards else "no finished shard"
        )
    run = "a failed" if pieces and storage.exists(FAILED_RUN) else "an interrupted"
    return f"{run} run has left {' and '.join(reversed(pieces))}" if pieces else ""


def continuing(storage: Storage) -> str:
    """Return how the interrupted run of a folder is continued, or what has to change after a failed one."""
    line = left_command(storage.path(IMPORT_FOLDER)) if isinstance(storage, LocalStorage) else None
    if storage.exists(FAILED_RUN):
        advice = storage.read(FAILED_RUN, 0, _MAX_ADVICE).decode("utf-8", "replace")
        return f"{advice}; the command was: {line}" if line else advice
    return f"to continue, run: {line}" if line else "to continue, run the same command again"


def check_finished(storage: Storage) -> None:
    """Raise an error for the folder of an import that was not finished."""
    if not storage.exists(IMPORT_FOLDER):
        return
    if isinstance(storage, LocalStorage) and storage.exists(_LOCK) and os.access(storage.path(_LOCK), os.W_OK):
        with storage.lock(_LOCK):  # its error says that an import is at work
            pass
    raise StorageError(
        f"this is not a dataset yet: {left_sentence(storage)}",
        path=storage.path(""),
        hint=f"{continuing(storage)}; or remove the folder",
    )
