"""``index.sqlite``: the index in the form that other readers of the format expect (``docs/format.md``).

The tables are clustered by shard and sample instead of by row number, so that they need no indexes beside them but the
one over keys; rows then arrive in order, and writing costs half. What a query answers is the same.
"""

from __future__ import annotations

import codecs
import shutil
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import StorageError
from .shard_index import ShardIndex

__all__ = ["NotPatchable", "SqliteIndexWriter", "are_names_utf8", "cannot_express", "open_sqlite"]

_TABLES = """
CREATE TABLE samples (
    tar_file_id INTEGER NOT NULL,
    sample_key TEXT NOT NULL,
    sample_index INTEGER NOT NULL,
    byte_offset INTEGER,
    byte_size INTEGER,
    PRIMARY KEY (tar_file_id, sample_index)
) WITHOUT ROWID;
CREATE TABLE sample_parts (
    tar_file_id INTEGER NOT NULL,
    sample_index INTEGER NOT NULL,
    part_name TEXT,
    content_byte_offset INTEGER NOT NULL,
    content_byte_size INTEGER,
    PRIMARY KEY (tar_file_id, sample_index, content_byte_offset)
) WITHOUT ROWID;
"""
_UNIQUE_KEYS = "CREATE UNIQUE INDEX idx_samples_by_key ON samples (sample_key)"
# The file is nobody's until it is renamed into place, so nothing needs undoing.
_SETTINGS = (
    "trusted_schema = OFF",
    "journal_mode = OFF",
    "synchronous = OFF",
    "locking_mode = EXCLUSIVE",
    "cache_size = -32768",
)
_ROWS_AT_ONCE = 20_000  # as Python objects in memory
_ROWS_A_STATEMENT = 64
_MAX_VALUE_BYTES = 1 << 20  # of a row in another tool's file; names of tar members are not that long


def open_sqlite(path: Path) -> sqlite3.Connection:
    """Open any tool's ``index.sqlite`` to read it.

    Raises:
        sqlite3.Error: It is damaged, or no plain tables: views, generated columns and triggers are programs.
    """
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
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
    for table in ("samples", "sample_parts"):
        query = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden != 0"
        found = found or database.execute(query, (table,)).fetchone()
    if found:
        raise sqlite3.DatabaseError("it holds views, triggers or computed columns, which may compute without end")


def cannot_express(index: ShardIndex) -> str | None:
    """Say why SQLite and ``.tar.idx`` files cannot hold a shard, or None where they can."""
    if index.scattered:
        return f"the parts of {index.scattered} samples are not neighbours in the shard"
    if index.misread:
        return f"other tools would make samples of its {index.misread} hidden files (like .DS_Store) in folders"
    if not are_names_utf8(index.key_bytes, index.key_ends, index.part_names):
        return "it has member names that are not UTF-8"
    return None


def are_names_utf8(
    key_bytes: npt.NDArray[np.uint8], key_ends: npt.NDArray[np.integer], part_names: Iterable[str]
) -> bool:
    """Tell whether keys (behind each other) and part names are UTF-8, as SQLite's text must be."""
    if (key_bytes[key_ends[:-1]] & 0xC0 == 0x80).any():
        return False  # a key starts with what only goes on with a character: behind the last key it may look right
    try:
        codecs.utf_8_decode(key_bytes.data, "strict", True)
        for name in part_names:
            name.encode("utf-8")
    except UnicodeError:
        return False
    return True


class SqliteIndexWriter:
    """Writes an ``index.sqlite`` anew, or a changed copy of an earlier one.

    Args:
        path: A file of this machine; it is thrown away if anything fails.
        earlier: The file to copy; None writes a new one.
        replaced: Shards (``tar_file_id``) of the earlier file whose rows go, because they changed or are gone.

    Raises:
        NotPatchable: Another tool wrote the earlier file, or it is damaged: write a new one.
    """

    def __init__(self, path: Path, *, earlier: Path | None = None, replaced: Collection[int] = ()) -> None:
        self._path = path
        self._is_new = earlier is None
        path.parent.mkdir(parents=True, exist_ok=True)
        if earlier is not None:
            try:
                shutil.copyfile(earlier, path)
            except OSError as error:
                raise StorageError(f"cannot copy {earlier} here: {error.strerror}", path=str(path)) from error
        self._database = sqlite3.connect(path, isolation_level=None)
        try:
            with _sqlite_errors(path):
                self._start(replaced)
        except BaseException:
            self._database.close()
            raise

    def _start(self, replaced: Collection[int]) -> None:
        try:
            for setting in _SETTINGS:
                self._database.execute(f"PRAGMA {setting}")
            if self._is_new:
                self._database.executescript(_TABLES)
            else:
                query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
                found = sorted(str(row[0]) for row in self._database.execute(query))
                ours = [statement.strip() for statement in (*_TABLES.split(";"), _UNIQUE_KEYS) if statement.strip()]
                if found != sorted(ours):  # a trigger would run with every row
                    raise NotPatchable("its tables are another tool's")
            self._database.execute("BEGIN")
            for tar_file_id in sorted(replaced):
                for table in ("samples", "sample_parts"):
                    self._database.execute(f"DELETE FROM {table} WHERE tar_file_id = ?", (tar_file_id,))  # noqa: S608
        except sqlite3.DatabaseError as error:
            if not self._is_new and error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise NotPatchable(str(error)) from error
            raise

    def add(self, tar_file_id: int, index: ShardIndex) -> bool:
        """Append the rows of one shard; False where one of its keys is there already."""
        with _sqlite_errors(self._path):
            try:
                _insert(self._database, tar_file_id, index)
            except sqlite3.IntegrityError:
                return False
        return True

    def finish(self) -> None:
        """Add the index over keys, and close the file."""
        with _sqlite_errors(self._path):
            self._database.execute("COMMIT")
            if self._is_new:
                self._database.execute(_UNIQUE_KEYS)
            self._database.close()

    def close(self) -> None:
        """Close the file, whatever is in it."""
        self._database.close()


class NotPatchable(Exception):  # noqa: N818 - no error: the caller writes a new file
    """An earlier ``index.sqlite`` cannot be changed row by row."""


def _insert(database: sqlite3.Connection, tar_file_id: int, index: ShardIndex) -> None:
    keys = index.keys()
    part_names = list(index.part_names)
    sizes = np.diff(index.sample_offsets)
    counts = np.diff(index.part_ends, prepend=0)
    for rows in _chunks(len(index)):
        _insert_rows(
            database,
            "samples",
            [tar_file_id] * (rows.stop - rows.start),
            keys[rows],
            range(rows.start, rows.stop),
            index.sample_offsets[rows].tolist(),
            sizes[rows].tolist(),
        )
        parts = slice(int(index.part_ends[rows.start - 1]) if rows.start else 0, int(index.part_ends[rows.stop - 1]))
        _insert_rows(
            database,
            "sample_parts",
            [tar_file_id] * (parts.stop - parts.start),
            np.repeat(np.arange(rows.start, rows.stop), counts[rows]).tolist(),
            list(map(part_names.__getitem__, index.part_name[parts].tolist())),
            index.part_offset[parts].tolist(),
            index.part_size[parts].tolist(),
        )


def _chunks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, _ROWS_AT_ONCE):
        yield slice(start, min(start + _ROWS_AT_ONCE, rows))


def _insert_rows(database: sqlite3.Connection, table: str, *columns: Sequence[int | str]) -> None:
    """Insert rows given as columns, dozens a statement: that halves the time of one statement a row."""
    width, rows = len(columns), len(columns[0])
    values: list[int | str] = [0] * (width * rows)
    for number, column in enumerate(columns):
        values[number::width] = column
    row = f"({', '.join('?' * width)})"
    whole = rows - rows % _ROWS_A_STATEMENT
    for per_statement, start, stop in ((_ROWS_A_STATEMENT, 0, whole), (1, whole, rows)):
        step = width * per_statement
        database.executemany(
            f"INSERT INTO {table} VALUES {', '.join([row] * per_statement)}",  # noqa: S608 - the names are ours
            (values[first : first + step] for first in range(width * start, width * stop, step)),
        )


@contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _disk_error(path, error) from error


def _is_disk_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)


def _disk_error(path: Path, error: sqlite3.Error) -> StorageError:
    advice = "free some space on that disk and run the same command again" if _is_disk_full(error) else None
    return StorageError(f"cannot write this file: {error}", path=str(path), do=advice)
