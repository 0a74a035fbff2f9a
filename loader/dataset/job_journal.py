"""Journals of a dataset's jobs while they run in shares: lint, statistics, the search for duplicates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..arrays import IntArray
from ..engine.journal import SHARDS, Journal
from ..errors import StorageError
from ..format.data_kind import is_tar_file
from ..format.dataset_ref import DatasetRef
from ..format.nv_meta import FOLDER, JOBS_FOLDER, REQUEST_JSON
from ..storage import FileInfo, is_writable
from .dataset import Dataset


def job_journal(ref: DatasetRef, name: str, options: Mapping[str, str], kind: Any) -> Journal[Any]:
    """Return the journal of a job, in ``.nv-meta`` or the folder that is used instead.

    Args:
        name: Name of the job: ``"lint-decode"``.
        options: Options on which its results depend; jobs with others have their own journals.
        kind: Type of a result.

    Raises:
        StorageError: The data has no ``.nv-meta``, or it cannot be written.
    """
    if ref.is_temporary or ref.kind.is_file or is_tar_file(ref.path):
        raise no_journal(ref.path)
    storage = ref.storage()
    if not is_writable(storage, FOLDER):
        raise StorageError(
            "the results of shares are kept in this folder, and it cannot be written",
            path=storage.path(FOLDER),
            hint="run energon prepare with --meta-folder DIR, a folder that all shares see, and name it with the same"
            " option here",
        )
    digest = hashlib.sha256(msgspec.json.encode(dict(sorted(options.items())))).hexdigest()
    return Journal(storage, f"{JOBS_FOLDER}/{name}-{digest[:16]}", kind)


def no_journal(path: str) -> StorageError:
    """Return the error of shares over data that has no ``.nv-meta`` for their results."""
    return StorageError(
        "the results of shares are kept in .nv-meta, and this data has none",
        path=path,
        hint="run energon prepare on the folder first; with --meta-folder DIR if the folder is read-only",
    )


def digest_of_numbers(numbers: IntArray) -> str:
    """Return a digest of numbers of samples."""
    return hashlib.sha256(numbers.astype("<i8").tobytes()).hexdigest()[:16]


def request_of_data(dataset: Dataset, current: Iterable[FileInfo] = ()) -> dict[str, str]:
    """Return what results depend on of a dataset: the uuid of its index, and a digest of its shards as indexed.

    Args:
        current: The shards as they are now, if results depend on them, too.
    """
    shards = (shard.info for shard in dataset.index.shards)
    return {"dataset": str(dataset.index.uuid), SHARDS: _digest_of_files([*shards, *current])}


def request_of_metadata(dataset: Dataset) -> dict[str, str]:
    """Return what results take over from ``.nv-meta`` besides the index: a digest of documents, columns and filters."""
    storage = dataset.storage
    files = storage.list(FOLDER) if storage.exists(FOLDER) else ()
    names = {file: file.name.removeprefix(f"{FOLDER}/") for file in files}
    taken = [file for file, name in names.items() if not name.startswith((".", "index", REQUEST_JSON))]
    return {"set of documents, columns and filters": _digest_of_files(taken)}


def _digest_of_files(files: Iterable[FileInfo]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.size_bytes}\0{file.version}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]
