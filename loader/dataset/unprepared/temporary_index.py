"""Index tar shards that are not prepared in a temporary folder, as a prepare would."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack

from ...format.dataset_ref import DatasetRef
from ...format.documents.providers import is_tar_file
from ...format.nv_meta import TEMPORARY_INDEX
from ...format.prepare.plan import PreparePlan, ProgressCallback
from ...format.prepare.run import run_prepare
from ...format.worker_pool import usable_cores
from ...storage import open_parent
from .tar_folder import find_tars, is_unprepared


def index_temporarily(
    ref: DatasetRef,
    stack: ExitStack,
    on_progress: ProgressCallback | None = None,
    *,
    keys: Sequence[str] = (),
) -> DatasetRef | None:
    """Index tar shards that are not prepared; nothing is written next to them.

    Args:
        ref: A dataset, or a tar file.
        stack: Removes the index when it closes.
        on_progress: Called after each shard.
        keys: If each of these keys names its shard, only these shards are indexed.

    Returns:
        The folder of the shards, with the index as its meta folder; None for other paths.

    Raises:
        FormatError: Shards are damaged.
        StorageError: The folder has no tar files, or the temporary folder is full.
    """
    path = ref.path
    if not is_tar_file(path) and not is_unprepared(ref.storage(), ref):
        return None
    index = stack.enter_context(tempfile.TemporaryDirectory(prefix=TEMPORARY_INDEX))
    return ref.moved(index_tars(path, index, on_progress, keys=keys), index)


def index_tars(path: str, index: str, on_progress: ProgressCallback | None = None, *, keys: Sequence[str] = ()) -> str:
    """Index tar shards that are not prepared in a folder, and return the folder of the shards.

    Args:
        path: A folder of tar files, or a tar file.
        index: An empty folder, to use instead of ``.nv-meta``.
        on_progress: As in :func:`index_temporarily`.
        keys: As in :func:`index_temporarily`.

    Raises:
        FormatError: Shards are damaged.
        StorageError: The folder has no tar files, or the disk of the index is full.
    """
    tars = find_tars(path)
    folder, names = path, {shard.name for shard in tars.shards for key in keys if key.startswith(f"{shard.name}/")}
    if tars.is_file:
        storage, name = open_parent(path)
        folder, names = storage.path(""), {name}
    elif not all(any(key.startswith(f"{name}/") for name in names) for key in keys):
        names = set()
    exclude = f"^(?!({'|'.join(map(re.escape, sorted(names)))})$)" if names else None
    run_prepare(
        PreparePlan(path=folder, workers=usable_cores(), exclude=exclude, meta_folder=index), on_progress=on_progress
    )
    return folder
