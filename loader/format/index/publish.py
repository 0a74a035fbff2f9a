"""Commit the files of a finished prepare on this machine: a kill at any moment leaves the old dataset or the new one.

All files are first written to a staging folder. Then the list of renames is written; from then on, a later prepare
completes them. ``.info.json`` is renamed last. A reader that finds it with an index of other shards uses the index that
fits it (:mod:`.current`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from ...errors import FormatError
from ...escaped_log import get_logger
from ...storage import Storage, check_target, flush_files, read_document, rename_file
from ..nv_meta import COLUMNS_FOLDER, FOLDER, INDEX_FOLDER, INDEX_SQLITE, TAR_IDX_SUFFIX, WORK_FOLDER

_log = get_logger(__name__)


STAGING = f"{WORK_FOLDER}/staged"  # the folder of the files that wait for the commit

_TAR_IDX = f".tar{TAR_IDX_SUFFIX}"
_INTENT = f"{WORK_FOLDER}/commit.json"
_REMOVABLE = (f"{INDEX_FOLDER}/", f"{COLUMNS_FOLDER}/", f"{FOLDER}/filter_")


class _Intent(msgspec.Struct, frozen=True, kw_only=True):
    """The renames and removals of a commit, as stored on disk."""

    renames: tuple[tuple[str, str], ...]
    removals: tuple[str, ...]


def stage_files(storage: Storage, files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Write small files to the staging folder, and return the renames that publish them, in the same order.

    Args:
        files: Name → content.
    """
    renames = []
    for position, (name, data) in enumerate(files.items()):
        path = f"{STAGING}/files/{position}"
        storage.write(path, data)
        renames.append((path, name))
    return renames


def commit(storage: Storage, renames: Sequence[tuple[str, str]], removals: Sequence[str]) -> None:
    """Apply removals and then renames as one step, which a kill cannot divide.

    Args:
        renames: Pairs (old name, new name), in order; the last one makes the commit visible.
        removals: Files that the new state does not need.
    """
    intent = _Intent(renames=tuple(renames), removals=tuple(removals))
    for _, final in renames:
        check_target(storage, final)  # before anything is changed
    flush_files(storage, [STAGING])  # else a power cut could leave names of files without their bytes
    storage.write(_INTENT, json.dumps(msgspec.to_builtins(intent)).encode("ascii"))
    finish_interrupted_commit(storage)


def _check_names(intent: _Intent) -> None:
    """Raise a ``ValueError`` for operations of no commit of ours: a hostile dataset may contain the list."""
    for name in (*intent.removals, *(name for rename in intent.renames for name in rename)):
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"{name!r} leads out of the dataset")
    for staged, final in intent.renames:
        if not staged.startswith(f"{STAGING}/") or not (final.startswith(f"{FOLDER}/") or final.endswith(_TAR_IDX)):
            raise ValueError(f"expected renames of staged files, found {staged!r} to {final!r}")
    for name in intent.removals:
        if not (name.startswith(_REMOVABLE) or name == INDEX_SQLITE or name.endswith(_TAR_IDX)):
            raise ValueError(f"expected removals of index files, columns and filters, found {name!r}")


def is_commit_pending(storage: Storage) -> bool:
    """Return True if a commit was started and not finished."""
    return storage.exists(_INTENT)


def finish_interrupted_commit(storage: Storage) -> None:
    """Finish the commit that an earlier process started, if there is one."""
    if not is_commit_pending(storage):
        return
    try:
        # The standard library reads names that are not UTF-8; msgspec refuses them.
        intent = msgspec.convert(json.loads(read_document(storage, _INTENT)), _Intent)
        _check_names(intent)
    except (ValueError, msgspec.ValidationError) as error:
        raise FormatError(
            f"the list of a commit's renames is damaged: {error}",
            shard=storage.path(_INTENT),
            hint=f"remove {storage.path(WORK_FOLDER)} and run energon prepare again",
        ) from error
    for name in intent.removals:
        storage.remove(name)
    for staged, final in intent.renames:
        if storage.exists(staged):  # else it was renamed before the interruption
            rename_file(storage, staged, final)
    storage.remove(WORK_FOLDER)
