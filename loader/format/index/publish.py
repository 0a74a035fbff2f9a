"""Put the files of a finished prepare in place, so that a kill at any moment leaves the old dataset or the new one.

All files are written beside their places first. Then the list of renames is written: from there on a later prepare
carries them out to the end. ``.info.json`` is renamed last; a reader that finds it beside an index of other shards
takes the index that fits it (:mod:`.dataset_folder`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from ..errors import FormatError
from ..storage import Storage
from .nv_meta import FOLDER, INDEX_FOLDER, INDEX_SQLITE, TAR_IDX_SUFFIX, WORK_FOLDER

__all__ = ["STAGING", "commit", "finish_interrupted_commit", "is_commit_pending"]

STAGING = f"{WORK_FOLDER}/staged"
"""Where files wait for the commit."""

_INTENT = f"{WORK_FOLDER}/commit.json"


class _Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit does: its list of renames on disk."""

    renames: tuple[tuple[str, str], ...]
    removals: tuple[str, ...]


def commit(storage: Storage, *, renames: Sequence[tuple[str, str]], removals: Sequence[str] = ()) -> None:
    """Carry out removals and then renames as one step, as far as kills are concerned.

    Args:
        storage: The dataset.
        renames: Pairs (name now, name then), in order; the last one makes the commit visible.
        removals: Files that the new state has no use for.
    """
    intent = _Intent(renames=tuple(renames), removals=tuple(removals))
    for _, final in renames:
        storage.check_target(final)  # while everything can still be left as it was
    storage.flush([STAGING])  # a power cut must not leave the names of files whose bytes it took
    with storage.create(_INTENT) as file:
        file.write(json.dumps(msgspec.to_builtins(intent)).encode("ascii"))
    finish_interrupted_commit(storage)


def _check_names(intent: _Intent) -> None:
    """Raise a ``ValueError`` for what no commit of ours does: whoever made the dataset may have planted the list."""
    for name in (*intent.removals, *(name for rename in intent.renames for name in rename)):
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"{name!r} leads out of the dataset")
    for staged, final in intent.renames:
        if not staged.startswith(f"{STAGING}/") or not (final.startswith(f"{FOLDER}/") or _is_tar_idx(final)):
            raise ValueError(f"{staged!r} is not to be renamed to {final!r}")
    for name in intent.removals:
        if not (name.startswith(f"{INDEX_FOLDER}/") or name == INDEX_SQLITE or _is_tar_idx(name)):
            raise ValueError(f"{name!r} is not to be removed")


def _is_tar_idx(name: str) -> bool:
    return name.endswith(f".tar{TAR_IDX_SUFFIX}")


def is_commit_pending(storage: Storage) -> bool:
    """Tell whether a commit was begun and not finished."""
    return storage.exists(_INTENT)


def finish_interrupted_commit(storage: Storage) -> bool:
    """Finish the commit that an earlier process began; False where there is none."""
    if not is_commit_pending(storage):
        return False
    try:
        # The standard library's parser reads names that are no UTF-8; msgspec's refuses them.
        intent = msgspec.convert(json.loads(storage.read(_INTENT)), _Intent)
        _check_names(intent)
    except (ValueError, msgspec.ValidationError) as error:
        raise FormatError(
            f"the list of a commit's renames is damaged: {error}",
            shard=storage.path(_INTENT),
            do=f"remove {storage.path(WORK_FOLDER)} and run energon prepare again",
        ) from error
    for name in intent.removals:
        storage.remove(name)
    for staged, final in intent.renames:
        if storage.exists(staged):  # else it was renamed before the interruption
            storage.rename(staged, final)
    storage.remove(WORK_FOLDER)
    return True
