"""Collect media metadata into ``.nv-meta/index.sqlite``, of a plain folder of files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ..errors import ConfigError, FormatError, StorageError, plural
from ..format.documents.dataset_files import is_prepared
from ..format.documents.next_command import quoted
from ..format.media.extraction import FileRegion, may_be_media
from ..format.media.metadata import MediaFilter
from ..format.media.tables import (
    MediaChunk,
    MediaProgress,
    MediaReport,
    MediaRows,
    MediaTables,
    fill_media_tables,
)
from ..format.nv_meta import FOLDER, INDEX_SQLITE, LOCK
from ..storage import (
    FileInfo,
    RemoteStorage,
    Storage,
    check_target,
    flush_files,
    list_once,
    missing_folder,
    rename_file,
)

_STAGED = f"{FOLDER}/index.sqlite.partial"
_FILES_AT_ONCE = 64


# ------------------------------------------------------------------------------------------- the samples of shards


# --------------------------------------------------------------------------------------------- a folder of files


def _read_files(storage: Storage, media_filter: MediaFilter, chunk: MediaChunk) -> MediaRows:
    rows = MediaRows()
    for info in chunk.content:
        try:
            with storage.open(info.name, info) as file:
                rows.extract(FileRegion(file, 0, file.size_bytes), info.name, media_filter)
        except (StorageError, FormatError) as error:  # FormatError: it was replaced in its object store
            is_outage = isinstance(error, StorageError) and not error.is_missing
            if storage.checks_versions and is_outage:
                raise  # every other file would count as broken, too
            rows.note_broken(info.name, error.message)
    return rows


def prepare_media_folder(
    storage: Storage, media_filter: MediaFilter, *, workers: int = 1, on_progress: MediaProgress | None = None
) -> MediaReport:
    """Collect the media metadata of a folder's files.

    Each run reads all files again, but only the first bytes of most. The new ``index.sqlite`` replaces the existing one
    once it is complete. Hidden files and folders are skipped, and so are files that cannot be read.

    Args:
        storage: The folder.
        media_filter: Files to read.
        workers: Number of worker processes.
        on_progress: Called with the number of files read so far and of all files.

    Raises:
        ConfigError: The folder is a dataset, or a package is missing.
        StorageError: No media was found, another run works here, or the disk is full.
    """
    # Check that this is a folder of files.
    list_once(storage, "")
    if is_prepared(storage):
        folder = storage.path("")
        hint = f"collect the metadata of its samples with the same flags: energon prepare {quoted(folder)}"
        raise ConfigError("this is a dataset, not a folder of files", file=folder, hint=hint)
    if not storage.exists(""):
        raise missing_folder(storage)
    # Find the files that may be media, in chunks.
    files, undecodable = _files_to_read(storage.list(), media_filter)
    groups = [files[at : at + _FILES_AT_ONCE] for at in range(0, len(files), _FILES_AT_ONCE)]
    chunks = [MediaChunk(f"{group[0].name} … {group[-1].name}", len(group), group) for group in groups]
    if not files:
        raise _no_media(storage, (), undecodable)
    # Read them into a new index.sqlite, which replaces the present one.
    with storage.lock(LOCK):
        check_target(storage, INDEX_SQLITE)
        with _staged_sqlite(storage) as path:
            with MediaTables(path, media_filter) as tables:
                read_chunk = partial(_read_files, storage, media_filter)
                added, broken, warnings = fill_media_tables(
                    tables, read_chunk, chunks, workers=workers, on_progress=on_progress
                )
            if not added:
                raise _no_media(storage, warnings, undecodable)
    return MediaReport(
        media_filter=media_filter,
        entries=added,
        collected=added,
        broken=broken,
        warnings=(*warnings, *_undecodable_warning(undecodable)),
    )


@contextmanager
def _staged_sqlite(storage: Storage) -> Iterator[Path]:
    """Return the path of a new ``index.sqlite``, which takes its place when the block ends without an error."""
    if isinstance(storage, RemoteStorage):
        with tempfile.TemporaryDirectory(prefix="energon-prepare-") as folder:
            path = Path(folder, "index.sqlite")
            yield path
            storage.upload(INDEX_SQLITE, path)
        return
    storage.remove(_STAGED)
    try:
        yield storage.local_path(_STAGED)
        flush_files(storage, [_STAGED])
        rename_file(storage, _STAGED, INDEX_SQLITE)
    finally:
        storage.remove(_STAGED)


def _files_to_read(files: Iterable[FileInfo], media_filter: MediaFilter) -> tuple[list[FileInfo], list[str]]:
    """Return the files to read, and the names that SQLite cannot store because they are not UTF-8."""
    readable: list[FileInfo] = []
    undecodable: list[str] = []
    for file in files:
        name = file.name
        if name.rpartition("/")[2].startswith(".") or not may_be_media(name, media_filter):
            continue
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            undecodable.append(name)
        else:
            readable.append(file)
    return readable, undecodable


def _no_media(storage: Storage, warnings: Sequence[str], undecodable: Sequence[str]) -> StorageError:
    message = ["found no media in this folder", *warnings, *_undecodable_warning(undecodable)]
    hint = "check the path, or try another flag: --media-metadata-by-header, -by-extension or -by-glob"
    return StorageError("; ".join(message), path=storage.path(""), hint=hint)


def _undecodable_warning(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    return (f"no metadata of {plural(len(names), 'file')} with names that are not UTF-8, such as {names[0]}",)
