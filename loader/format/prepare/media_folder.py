"""A folder of files, not a dataset: its ``.nv-meta/index.sqlite`` holds only media metadata, by path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import ConfigError, StorageError
from ..storage import FileInfo, Storage
from .file_region import FileRegion
from .media_extraction import may_be_media
from .media_filter import MediaFilter
from .media_tables import MediaTables
from .media_work import MediaProgress, MediaReport, MediaRows, fill_media_tables
from .nv_meta import FOLDER, INDEX_SQLITE, INFO_JSON, INFO_YAML, LOCK

__all__ = ["prepare_media_folder"]

_STAGED = f"{FOLDER}/index.sqlite.partial"
_FILES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some neighbouring files."""

    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.names[0]} … {self.names[-1]}"

    @property
    def entries(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class _ReadFiles:
    storage: Storage
    media_filter: MediaFilter

    def __call__(self, chunk: _Chunk) -> MediaRows:
        found = MediaRows([], 0, [])
        for name in chunk.names:
            try:
                with self.storage.open(name) as file:
                    found.extract(FileRegion(file, 0, file.size_bytes), name, self.media_filter)
            except StorageError as error:
                found.note_broken(name, error.found)
        return found


def prepare_media_folder(
    storage: Storage, media_filter: MediaFilter, *, workers: int = 1, on_progress: MediaProgress | None = None
) -> MediaReport:
    """Collect the media metadata of a folder's files.

    All files are read again each time, only the first bytes of most. The new ``index.sqlite`` replaces the one that is
    there when it is whole. Hidden files and folders are left out, and files that cannot be read.

    Args:
        storage: The folder.
        media_filter: Which files to look into.
        workers: Processes that read.
        on_progress: Called with numbers of files.

    Raises:
        ConfigError: The folder is a dataset, or a package is missing.
        StorageError: No media was found, another run is at work here, or the disk is full.
    """
    if storage.exists(INFO_JSON) or storage.exists(INFO_YAML):
        raise ConfigError(
            "this is a dataset; prepare-media is for folders of files",
            file=storage.path(""),
            do="run energon prepare with the same flags",
        )
    if not storage.exists(""):
        raise StorageError("this folder does not exist", path=storage.path(""), do="check the path")
    names, strange = _files_to_read(storage.list(), media_filter)
    chunks = [_Chunk(tuple(names[at : at + _FILES_AT_ONCE])) for at in range(0, len(names), _FILES_AT_ONCE)]
    if not names:
        raise _no_media(storage, (), strange)
    with storage.lock(LOCK):
        storage.check_target(INDEX_SQLITE)
        storage.remove(_STAGED)
        try:
            with MediaTables(storage.local_path(_STAGED), media_filter) as tables:
                added, broken, warnings = fill_media_tables(
                    tables, _ReadFiles(storage, media_filter), chunks, workers=workers, on_progress=on_progress
                )
            if not added:
                raise _no_media(storage, warnings, strange)
            storage.flush([_STAGED])
            storage.rename(_STAGED, INDEX_SQLITE)
        finally:
            storage.remove(_STAGED)
    return MediaReport(
        media_filter=media_filter,
        entries=added,
        collected=added,
        broken=broken,
        warnings=(*warnings, *_strange_warning(strange)),
    )


def _files_to_read(files: Iterable[FileInfo], media_filter: MediaFilter) -> tuple[list[str], list[str]]:
    """Give the names of files to look into, and of those that SQLite's text cannot hold."""
    names: list[str] = []
    strange: list[str] = []
    for file in files:
        name = file.name
        if name.rpartition("/")[2].startswith(".") or not may_be_media(name, media_filter):
            continue
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            strange.append(name)
        else:
            names.append(name)
    return names, strange


def _no_media(storage: Storage, warnings: Sequence[str], strange: Sequence[str]) -> StorageError:
    found = ["found no media in this folder", *warnings, *_strange_warning(strange)]
    do = "check the path, or look by another flag: --media-metadata-by-header, -by-extension or -by-glob"
    return StorageError("; ".join(found), path=storage.path(""), do=do)


def _strange_warning(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    return (f"{len(names):,} files have no metadata, since their names are not UTF-8, such as {names[0]}",)
