"""Opening an ``index.sqlite``: any tool's to read it, a new one of ours to write it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ..errors import StorageError

__all__ = ["SQLITE_SETTINGS", "disk_error", "open_sqlite", "primary_code"]

SQLITE_SETTINGS = (
    "trusted_schema = OFF",
    "journal_mode = OFF",
    "synchronous = OFF",
    "locking_mode = EXCLUSIVE",
    "cache_size = -32768",
)
"""For a file that is nobody's until it is renamed into place, so that nothing needs undoing."""

_MAX_VALUE_BYTES = 1 << 20  # of a row in another tool's file; names of tar members are not that long


def open_sqlite(path: Path, *, shared: bool = False) -> sqlite3.Connection:
    """Open any tool's ``index.sqlite`` to read it.

    Args:
        path: The file.
        shared: Several threads will use the connection, one at a time.

    Raises:
        sqlite3.Error: It is damaged, or no plain tables: views, generated columns and triggers are programs.
    """
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=not shared)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        _refuse_programs(database)
    except BaseException:
        database.close()
        raise
    return database


def _refuse_programs(database: sqlite3.Connection) -> None:
    query = "SELECT 1 FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'"
    found = database.execute(query).fetchone()
    for table in ("samples", "sample_parts", "media_metadata", "media_filters"):
        query = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden != 0"
        found = found or database.execute(query, (table,)).fetchone()
    if found:
        raise sqlite3.DatabaseError("it holds views, triggers or computed columns, which may compute without end")


def primary_code(error: sqlite3.Error) -> int:
    """Give the code of an error without its details; 0 where it has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_disk_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)


def disk_error(path: Path, error: sqlite3.Error) -> StorageError:
    """Say that a file cannot be written, and what to do where the disk is full."""
    advice = "free some space on that disk and run the same command again" if _is_disk_full(error) else None
    return StorageError(f"cannot write this file: {error}", path=str(path), do=advice)
