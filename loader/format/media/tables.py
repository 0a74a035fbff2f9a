"""Writing the two media tables of an ``index.sqlite`` that is nobody's yet, and reading which filter filled them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

from ..storage import Storage
from .media_filter import MediaFilter, MediaStrategy, parse_patterns
from .media_metadata import has_media_tables
from .nv_meta import INDEX_SQLITE
from .sqlite_file import SQLITE_SETTINGS, disk_error, open_sqlite
from .sqlite_index import MEDIA_TABLES

__all__ = ["MediaRow", "MediaTables", "copied_rows", "entry_keys_of_shards", "read_media_filter"]

MediaRow = tuple[str, str, str]  # entry_key, metadata_type, metadata_json

_ENTRY_KEYS = """
SELECT sample_key || '.' || part_name FROM samples JOIN sample_parts USING (tar_file_id, sample_index)
WHERE tar_file_id = ?
"""


class MediaTables:
    """Fills the media tables in one transaction, which leaving the context without an error completes.

    Args:
        path: The file, with or without other tables; it is made if it is not there.
        media_filter: What fills them.
        keep: Go on with the rows that are there, if there are any.

    Raises:
        StorageError: The disk is full, or the file cannot be written.
    """

    def __init__(self, path: Path, media_filter: MediaFilter, *, keep: bool = False) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        with self._errors():
            database = sqlite3.connect(path, isolation_level=None)
            self._database = database
            for setting in SQLITE_SETTINGS:
                database.execute(f"PRAGMA {setting}")
            self.has_rows = has_media_tables(database)
            """Whether there are rows to go on with."""
            if self.has_rows and not keep:
                database.execute("DROP TABLE media_metadata")
            if not (self.has_rows and keep):
                self.has_rows = False
                database.execute("DROP TABLE IF EXISTS media_filters")
                for table in MEDIA_TABLES:
                    database.execute(table)
                row = (media_filter.strategy, media_filter.pattern_text)
                database.execute("INSERT INTO media_filters (strategy, patterns) VALUES (?, ?)", row)
            database.execute("BEGIN")

    def remove(self, entry_keys: Iterable[str]) -> None:
        """Remove the rows of entries."""
        with self._errors():
            self._open.executemany("DELETE FROM media_metadata WHERE entry_key = ?", ((key,) for key in entry_keys))

    def add(self, rows: Iterable[MediaRow]) -> None:
        """Add rows; of an entry that is there already the new row counts."""
        with self._errors():
            self._open.executemany("INSERT OR REPLACE INTO media_metadata VALUES (?, ?, ?)", rows)

    def count(self) -> int:
        """Count the rows."""
        with self._errors():
            return int(self._open.execute("SELECT count(*) FROM media_metadata").fetchone()[0])

    @property
    def _open(self) -> sqlite3.Connection:
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
        """Close the file, whatever is in it."""
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
                    self._open.execute("COMMIT")
        finally:
            self.close()


def read_media_filter(storage: Storage) -> MediaFilter | None:
    """Give the filter that filled the media tables of ``index.sqlite``; None where there are none to rely on."""
    if not storage.exists(INDEX_SQLITE):
        return None
    try:
        with closing(open_sqlite(storage.local_path(INDEX_SQLITE))) as database:
            if not has_media_tables(database):
                return None
            rows = database.execute("SELECT strategy, patterns FROM media_filters LIMIT 2").fetchall()
    except sqlite3.Error:
        return None
    if len(rows) != 1 or rows[0][0] not in get_args(MediaStrategy):
        return None
    return MediaFilter(strategy=rows[0][0], patterns=parse_patterns(str(rows[0][1] or "")))


def copied_rows(database: sqlite3.Connection) -> Iterator[MediaRow]:
    """Give all rows of another ``index.sqlite``."""
    yield from database.execute("SELECT entry_key, metadata_type, metadata_json FROM media_metadata")


def entry_keys_of_shards(database: sqlite3.Connection, tar_file_ids: Iterable[int]) -> Iterator[str]:
    """Give the entries that shards of another ``index.sqlite`` may have rows of."""
    for number in tar_file_ids:
        for (entry_key,) in database.execute(_ENTRY_KEYS, (number,)):
            yield entry_key
