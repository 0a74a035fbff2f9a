"""Collect media metadata in worker processes, and write the media tables of a new ``index.sqlite``."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from ...engine.run import Engine, in_order
from ...errors import plural
from ...storage import Storage
from ..compat.sqlite_index import MEDIA_TABLES, SQLITE_SETTINGS, disk_error, open_sqlite
from ..nv_meta import INDEX_SQLITE
from .extraction import BrokenMedia, FileRegion, extract_media
from .metadata import AVMetadata, MediaFilter, MediaStrategy, has_media_tables, parse_patterns, serialize_media_metadata

# entry_key, metadata_type, metadata_json, video_basis and audio_basis.
MediaRow = tuple[str, str, str, str | None, str | None]

# The row of ``media_basis`` that records a filter with ``exact``: no entry has an empty key.
_EXACT_ROW = ("", "decoded", "decoded")

_MAX_NAMED = 3  # broken files in a message

# Of a SQLite file: its page size is in its header, before the first page of the table of all tables.
_PAGE_SIZE = slice(16, 18)
_HEADER_BYTES = 100
_LEAF_PAGE = b"\x0d"  # of a table without further pages
_MAX_PAGE_BYTES = 1 << 16
_MEDIA_TABLE = b"media_metadata"

_EXACT_QUERY = "SELECT 1 FROM media_basis WHERE entry_key = ''"
_ENTRY_KEYS = """
SELECT sample_key || '.' || part_name FROM samples JOIN sample_parts USING (tar_file_id, sample_index)
WHERE tar_file_id = ?
"""


class MediaTables:
    """Writes the media tables in one transaction, which ends with the ``with`` block unless it raises.

    Args:
        path: Path of the file, with or without other tables; it is created if it does not exist.
        keep: Keep the rows of the file, if it has any.
    """

    def __init__(self, path: Path, media_filter: MediaFilter, *, keep: bool = False) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        with self._errors():
            database = sqlite3.connect(path, isolation_level=None)
            self._database = database
            # Keep the rows of a file with the tables, or create new tables.
            for setting in SQLITE_SETTINGS:
                database.execute(f"PRAGMA {setting}")
            self.has_rows = has_media_tables(database)  # True if the rows of the file were kept
            if not (self.has_rows and keep):
                self.has_rows = False
                for table in ("media_metadata", "media_filters", "media_basis"):
                    database.execute(f"DROP TABLE IF EXISTS {table}")
                for table in MEDIA_TABLES:
                    database.execute(table)
                row = (media_filter.strategy, media_filter.pattern_text)
                database.execute("INSERT INTO media_filters (strategy, patterns) VALUES (?, ?)", row)
                if media_filter.exact:
                    database.execute("INSERT INTO media_basis VALUES (?, ?, ?)", _EXACT_ROW)
            elif not has_media_tables(database, "media_basis"):  # an older version or another tool wrote the file
                database.execute(MEDIA_TABLES[-1])
            # All rows are one transaction.
            database.execute("BEGIN")

    def remove(self, entry_keys: Iterable[str]) -> None:
        with self._errors():
            for key in entry_keys:
                self._connection.execute("DELETE FROM media_metadata WHERE entry_key = ?", (key,))
                self._connection.execute("DELETE FROM media_basis WHERE entry_key = ?", (key,))

    def add(self, rows: Iterable[MediaRow]) -> None:
        """Add rows, replacing earlier rows of the same entries."""
        with self._errors():
            for key, kind, text, *bases in rows:
                self._connection.execute("INSERT OR REPLACE INTO media_metadata VALUES (?, ?, ?)", (key, kind, text))
                if any(bases):
                    self._connection.execute("INSERT OR REPLACE INTO media_basis VALUES (?, ?, ?)", (key, *bases))

    def count(self) -> int:
        with self._errors():
            return int(self._connection.execute("SELECT count(*) FROM media_metadata").fetchone()[0])

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._database is None:
            raise ValueError("the tables are closed")
        return self._database

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self.close()
            raise disk_error(self._path, error) from error

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with self._errors():
                    self._connection.execute("COMMIT")
        finally:
            self.close()


def read_media_filter(storage: Storage) -> MediaFilter | None:
    """Return the filter that filled the media tables of ``index.sqlite``, or None if it has no valid tables."""
    if not storage.exists(INDEX_SQLITE) or not _may_have_media(storage):
        return None
    try:
        with closing(open_sqlite(storage.local_path(INDEX_SQLITE))) as database:
            if not has_media_tables(database):
                return None
            rows = database.execute("SELECT strategy, patterns FROM media_filters LIMIT 2").fetchall()
            exact = has_media_tables(database, "media_basis") and database.execute(_EXACT_QUERY).fetchone()
    except sqlite3.Error:
        return None
    if len(rows) != 1 or rows[0][0] not in get_args(MediaStrategy):
        return None
    return MediaFilter(strategy=rows[0][0], patterns=parse_patterns(str(rows[0][1] or "")), exact=bool(exact))


def _may_have_media(storage: Storage) -> bool:
    """Return False if the first page of a remote ``index.sqlite`` lists all its tables, and none of media.

    The file may be large; with media it is downloaded.
    """
    if not storage.checks_versions:
        return True
    page = storage.read(INDEX_SQLITE, 0, _MAX_PAGE_BYTES)
    size_bytes = int.from_bytes(page[_PAGE_SIZE], "big")
    schema = page[: size_bytes if size_bytes > 1 else _MAX_PAGE_BYTES]
    is_whole = schema[_HEADER_BYTES : _HEADER_BYTES + 1] == _LEAF_PAGE
    return not is_whole or _MEDIA_TABLE in schema


def entry_keys_of_shards(database: sqlite3.Connection, tar_file_ids: Iterable[int]) -> Iterator[str]:
    """Yield the keys of all entries of some shards of another ``index.sqlite``, media or not."""
    for shard in tar_file_ids:
        for (entry_key,) in database.execute(_ENTRY_KEYS, (shard,)):
            yield entry_key


@dataclass(slots=True)
class MediaRows:
    """Rows and broken files of one chunk."""

    rows: list[MediaRow] = field(default_factory=list)  # rows of the media tables
    broken: int = 0  # number of parts or files that should be media and cannot be read
    reasons: list[str] = field(default_factory=list)  # name and reason of the first few broken ones

    def extract(self, region: FileRegion, entry_key: str, media_filter: MediaFilter) -> None:
        """Read one part or file, and add its row if it is media."""
        try:
            metadata = extract_media(region, entry_key, media_filter)
        except BrokenMedia as broken:
            self.note_broken(entry_key, str(broken))
            return
        if metadata is not None:
            bases = (metadata.video_basis, metadata.audio_basis) if isinstance(metadata, AVMetadata) else (None, None)
            self.rows.append((entry_key, *serialize_media_metadata(metadata), *bases))

    def note_broken(self, entry_key: str, reason: str) -> None:
        self.broken += 1
        if len(self.reasons) < _MAX_NAMED:
            self.reasons.append(f"{entry_key}: {reason}")


@dataclass(frozen=True, slots=True)
class MediaChunk:
    """Some parts or files that a worker reads in one task."""

    name: str  # in messages
    entries: int  # number of parts or files
    content: Any  # what the function needs that reads the chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaReport:
    """Result of collecting media metadata."""

    media_filter: MediaFilter  # the filter that selected the parts or files
    entries: int  # number of parts or files with metadata
    collected: int  # number of files that were read now; the others had not changed
    broken: int  # number of parts or files that should be media and cannot be read
    warnings: tuple[str, ...]  # warnings about the broken ones, and about others that were skipped


# Called with the number of parts or files that are done, and the number of all.
MediaProgress = Callable[[int, int], None]


def fill_media_tables(
    tables: MediaTables,
    read_chunk: Callable[[MediaChunk], MediaRows],
    chunks: Sequence[MediaChunk],
    *,
    workers: int,
    on_progress: MediaProgress | None = None,
) -> tuple[int, int, tuple[str, ...]]:
    """Read chunks in worker processes, and add their rows to the tables.

    Args:
        read_chunk: Picklable function that reads one chunk in a worker.
        workers: Number of worker processes; with one, everything runs in this process.

    Returns:
        Number of added rows, number of broken parts or files, and warnings about the broken ones.
    """
    total, done, added, broken = sum(chunk.entries for chunk in chunks), 0, 0, 0
    reasons: list[str] = []  # of the first chunks
    with closing(Engine(workers=workers).run(read_chunk, chunks)) as results:
        for position, entries in in_order(results):
            tables.add(entries.rows)
            added += len(entries.rows)
            broken += entries.broken
            reasons += entries.reasons[: _MAX_NAMED - len(reasons)]
            done += chunks[position].entries
            if on_progress:
                on_progress(done, total)
    return added, broken, (_broken_warning(broken, reasons),) if broken else ()


def _broken_warning(broken: int, first: Sequence[str]) -> str:
    more = "; …" if broken > len(first) else ""
    return f"no metadata of {plural(broken, 'media file')} that cannot be read: {'; '.join(first)}{more}"
