"""Open and write ``index.sqlite``, the index that other readers of the format use (``docs/format.md``).

The tables are clustered by shard and sample instead of by row number. Rows arrive in that order, and no other index is
needed except the one over keys, so writing takes half the time. The results of queries are the same.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np

from ...errors import StorageError
from ..index.shard_index import ShardIndex

TABLES = """
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
# Statements that create the media tables, which exist only if media metadata was collected.
#
# megatron-energon does not know the last one, and leaves it alone.
MEDIA_TABLES = (
    """CREATE TABLE media_metadata (
    entry_key TEXT PRIMARY KEY,
    metadata_type TEXT NOT NULL,
    metadata_json TEXT NOT NULL
) WITHOUT ROWID""",
    """CREATE TABLE media_filters (
    filter_id INTEGER PRIMARY KEY AUTOINCREMENT,
    strategy TEXT NOT NULL,
    patterns TEXT,
    created_at_utc TEXT DEFAULT CURRENT_TIMESTAMP,
    UNIQUE(strategy, patterns)
)""",
    """CREATE TABLE media_basis (
    entry_key TEXT PRIMARY KEY,
    video_basis TEXT,
    audio_basis TEXT
) WITHOUT ROWID""",
)

UNIQUE_KEYS = "CREATE UNIQUE INDEX idx_samples_by_key ON samples (sample_key)"
# Settings to write a file that is renamed into place when it is complete, so that it needs no rollback or sync.
SQLITE_SETTINGS = (
    "trusted_schema = OFF",
    "journal_mode = OFF",
    "synchronous = OFF",
    "locking_mode = EXCLUSIVE",
    "cache_size = -32768",
)

_MAX_VALUE_BYTES = 1 << 20  # of a row in another tool's file: names of tar members are shorter
_ROWS_AT_ONCE = 20_000  # as Python objects in memory
_ROWS_PER_STATEMENT = 64
_COPIED_AT_ONCE = 1 << 20
_STEPS_BETWEEN_CHECKS = 100_000  # of SQLite's virtual machine: some milliseconds


def open_sqlite(path: Path, *, shared: bool = False) -> sqlite3.Connection:
    """Open any tool's ``index.sqlite`` for reading.

    Args:
        shared: True if several threads use the connection, one at a time.

    Raises:
        sqlite3.Error: The file is damaged or a pipe, or holds more than plain tables: views, generated columns and
            triggers run code.
    """
    if path.exists() and not path.is_file():  # SQLite waits for the writer of a pipe
        raise sqlite3.DatabaseError("expected a file, found a folder, pipe or device")
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
    program = database.execute(query).fetchone()
    for table in ("samples", "sample_parts", "media_metadata", "media_filters", "media_basis"):
        query = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden != 0"
        program = program or database.execute(query, (table,)).fetchone()
    if program:
        raise sqlite3.DatabaseError("it holds views, triggers or computed columns, which may compute without end")


def _primary_code(error: sqlite3.Error) -> int:
    """Return the primary result code of an error, or 0 if it has no code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def disk_error(path: Path, error: sqlite3.Error) -> StorageError:
    """Return the error for a file that cannot be written, with a hint if the disk is full."""
    is_full = getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
    hint = "free some space on that disk and run the same command again" if is_full else None
    return StorageError(f"cannot write this file: {error}", path=str(path), hint=hint)


class BackgroundIndexWriter:
    """Writes a new ``index.sqlite``, or a changed copy of an earlier one.

    A separate thread does the work, in the order of the calls: most of it is in SQLite or the kernel, which do not hold
    the GIL. The next call raises the errors of that thread.

    Args:
        path: Local path of the file. The caller deletes the file if anything fails.
        earlier: Path of the file to copy; None writes a new file.
        replaced: Shards (``tar_file_id``) of the earlier file to delete the rows of, because they changed or are gone.

    Raises:
        NotPatchable: Another tool wrote the earlier file, or it is damaged. Write a new file then. Damage inside the
            file may also be found later, in :meth:`add` or :meth:`finish`.
    """

    def __init__(self, path: Path, *, earlier: Path | None = None, replaced: Collection[int] = ()) -> None:
        self._path = path
        self._earlier = earlier
        self._replaced = sorted(replaced)
        self._database: sqlite3.Connection | None = None
        self._pending: list[tuple[int, ShardIndex]] = []  # shards that the thread does not have yet
        self._pending_rows = 0
        if earlier is not None:
            _check_tables(earlier)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        try:
            self._last: Future[bool] = self._thread.submit(self._write, [])
        except BaseException:
            # Ctrl-C while the thread was starting: the caller has no writer to close, and the process could not exit.
            self._stopping.set()
            self._thread.shutdown(wait=False)
            raise

    def add(self, tar_file_id: int, index: ShardIndex) -> None:
        """Append the rows of one shard.

        The thread gets many small shards at once. Return when the rows that it got before are written.
        """
        self._pending.append((tar_file_id, index))
        self._pending_rows += len(index.part_offset)
        if self._pending_rows >= _ROWS_AT_ONCE:
            if self._last.result():
                self._last = self._thread.submit(self._write, self._pending)
            self._pending, self._pending_rows = [], 0

    def finish(self) -> bool:
        """Add the index over keys, and close the file. Return False if a shard repeats a key of the file."""
        try:
            return self._last.result() and self._thread.submit(self._write, self._pending, is_last=True).result()
        finally:
            self.close()

    def close(self) -> None:
        """Stop the thread and close the file, complete or not."""
        self._stopping.set()
        self._thread.shutdown()
        if self._database is not None:
            self._database.close()
            self._database = None

    def _write(self, shards: Sequence[tuple[int, ShardIndex]], *, is_last: bool = False) -> bool:
        """Write the rows of shards, in the thread; return False if one repeats a key of the file."""
        try:
            # Begin with new tables, or with those of the earlier file.
            if self._database is None:
                if self._earlier is not None:
                    _copy(self._earlier, self._path, self._stopping)
                self._database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
                self._database.set_progress_handler(self._stopping.is_set, _STEPS_BETWEEN_CHECKS)
                for setting in SQLITE_SETTINGS:
                    self._database.execute(f"PRAGMA {setting}")
                if self._earlier is None:
                    self._database.executescript(TABLES)
                self._database.execute("BEGIN")
                for tar_file_id in self._replaced:
                    for table in ("samples", "sample_parts"):
                        self._database.execute(f"DELETE FROM {table} WHERE tar_file_id = ?", (tar_file_id,))  # noqa: S608
            # Add the rows, and complete the file after the last ones.
            for tar_file_id, index in shards:
                _insert_shard(self._database, tar_file_id, index)
            if is_last:
                self._database.execute("COMMIT")
                if self._earlier is None:
                    self._database.execute(UNIQUE_KEYS)
        except sqlite3.Error as error:
            code = None if self._earlier is None else _primary_code(error)
            if code == sqlite3.SQLITE_CONSTRAINT:
                return False
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise NotPatchable(str(error)) from error
            raise disk_error(self._path, error) from error
        return True


class NotPatchable(Exception):  # noqa: N818 - not an error: the caller writes a new file
    """An earlier ``index.sqlite`` cannot be changed row by row."""


def _check_tables(earlier: Path) -> None:
    """Check that a file has the tables that we write, and nothing else: a trigger would run with every row."""
    ours = [statement.strip() for statement in (*TABLES.split(";"), UNIQUE_KEYS) if statement.strip()]
    try:
        with closing(open_sqlite(earlier)) as database:
            query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
            tables = [str(row[0]) for row in database.execute(query)]
    except sqlite3.Error as error:
        if _primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
            raise StorageError(f"cannot copy {earlier}: {error}", path=str(earlier)) from error
        raise NotPatchable(str(error)) from error
    media = [*MEDIA_TABLES, "CREATE TABLE sqlite_sequence(name,seq)"]
    if sorted(tables) not in (sorted(ours), sorted([*ours, *media])):
        raise NotPatchable("another tool created its tables")


def _copy(source: Path, target: Path, stopping: threading.Event) -> None:
    buffer = memoryview(bytearray(_COPIED_AT_ONCE))
    try:
        with source.open("rb", buffering=0) as old, target.open("wb", buffering=0) as new:
            while size_bytes := old.readinto(buffer):
                if stopping.is_set():
                    raise CancelledError
                written = 0
                while written < size_bytes:
                    written += new.write(buffer[written:size_bytes])
    except OSError as error:
        raise StorageError(f"cannot copy {source} to this file: {error.strerror}", path=str(target)) from error


def _insert_shard(database: sqlite3.Connection, tar_file_id: int, index: ShardIndex) -> None:
    keys = index.keys()
    part_names = list(index.part_names)
    sizes = np.diff(index.sample_offsets)
    counts = np.diff(index.part_ends, prepend=0)
    # Insert blocks of rows, which limits the Python objects in memory.
    for start in range(0, len(index), _ROWS_AT_ONCE):
        rows = slice(start, min(start + _ROWS_AT_ONCE, len(index)))
        _insert_rows(
            database,
            "samples",
            [tar_file_id] * (rows.stop - rows.start),
            keys[rows],
            range(rows.start, rows.stop),
            index.sample_offsets[rows].tolist(),
            sizes[rows].tolist(),
        )
        # The parts of these samples are neighbours in the columns of the index.
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


def _insert_rows(database: sqlite3.Connection, table: str, *columns: Sequence[int | str]) -> None:
    """Insert rows given as columns, dozens per statement: half the time of one statement per row."""
    width, rows = len(columns), len(columns[0])
    values: list[int | str] = [0] * (width * rows)
    for position, column in enumerate(columns):
        values[position::width] = column
    row = f"({', '.join('?' * width)})"
    grouped = rows - rows % _ROWS_PER_STATEMENT
    for per_statement, start, stop in ((_ROWS_PER_STATEMENT, 0, grouped), (1, grouped, rows)):
        step = width * per_statement
        database.executemany(
            f"INSERT INTO {table} VALUES {', '.join([row] * per_statement)}",  # noqa: S608 - constant table names
            (values[first : first + step] for first in range(width * start, width * stop, step)),
        )
