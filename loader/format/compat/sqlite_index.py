"""``index.sqlite``: the index in the form that other readers of the format expect (``docs/format.md``).

The tables are clustered by shard and sample instead of by row number, so that they need no indexes beside them but the
one over keys; rows then arrive in order, and writing costs half. What a query answers is the same.
"""

from __future__ import annotations

import codecs
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import StorageError
from .shard_index import ShardIndex
from .sqlite_file import SQLITE_SETTINGS, disk_error, open_sqlite, primary_code

__all__ = ["MEDIA_TABLES", "NotPatchable", "SqliteIndexWriter", "are_names_utf8", "cannot_express"]

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
)
"""Those of media metadata, which follow where the user asked for it."""

_UNIQUE_KEYS = "CREATE UNIQUE INDEX idx_samples_by_key ON samples (sample_key)"
_ROWS_AT_ONCE = 20_000  # as Python objects in memory
_ROWS_A_STATEMENT = 64
_COPIED_AT_ONCE = 1 << 20
_STEPS_BETWEEN_LOOKS = 100_000  # of SQLite's machine: some milliseconds


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

    The work is done in a thread of its own, in the order of the calls: most of it is SQLite's or the kernel's, and
    needs no Python. What goes wrong there is raised by the calls that follow.

    Args:
        path: A file of this machine; it is thrown away if anything fails.
        earlier: The file to copy; None writes a new one.
        replaced: Shards (``tar_file_id``) of the earlier file whose rows go, because they changed or are gone.

    Raises:
        NotPatchable: Another tool wrote the earlier file, or it is damaged: write a new one. Damage inside may also
            show later, in :meth:`add` or :meth:`finish`.
    """

    def __init__(self, path: Path, *, earlier: Path | None = None, replaced: Collection[int] = ()) -> None:
        self._path = path
        self._is_new = earlier is None
        self._database: sqlite3.Connection | None = None
        if earlier is not None:
            _check_tables(earlier)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        try:
            self._last: Future[sqlite3.Connection | None] = self._thread.submit(self._start, earlier, sorted(replaced))
        except BaseException:
            # Ctrl-C while the thread was starting: nobody else knows of it, and the process could not end.
            self._stopping.set()
            self._thread.shutdown(wait=False)
            raise

    def add(self, tar_file_id: int, index: ShardIndex) -> None:
        """Append the rows of one shard; those of the shard before are in place when this returns."""
        database = self._last.result()
        if database is not None:
            self._last = self._thread.submit(self._insert, database, tar_file_id, index)

    def finish(self) -> bool:
        """Add the index over keys, and close the file; False where a shard has a key that was there already."""
        try:
            database = self._last.result()
            if database is not None:
                self._thread.submit(self._complete, database).result()
        finally:
            self.close()
        return database is not None

    def close(self) -> None:
        """Stop, and close the file, whatever is in it."""
        self._stopping.set()
        self._thread.shutdown()
        if self._database is not None:
            self._database.close()
            self._database = None

    # --------------------------------------------------------------------------------------------- in the thread

    def _start(self, earlier: Path | None, replaced: Sequence[int]) -> sqlite3.Connection:
        if earlier is not None:
            _copy(earlier, self._path, self._stopping)
        with self._errors():
            database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._database = database
            database.set_progress_handler(self._stopping.is_set, _STEPS_BETWEEN_LOOKS)
            for setting in SQLITE_SETTINGS:
                database.execute(f"PRAGMA {setting}")
            if self._is_new:
                database.executescript(_TABLES)
            database.execute("BEGIN")
            for tar_file_id in replaced:
                for table in ("samples", "sample_parts"):
                    database.execute(f"DELETE FROM {table} WHERE tar_file_id = ?", (tar_file_id,))  # noqa: S608
        return database

    def _insert(self, database: sqlite3.Connection, tar_file_id: int, index: ShardIndex) -> sqlite3.Connection | None:
        with self._errors():
            try:
                _insert_shard(database, tar_file_id, index)
            except sqlite3.IntegrityError:
                return None
        return database

    def _complete(self, database: sqlite3.Connection) -> None:
        with self._errors():
            database.execute("COMMIT")
            if self._is_new:
                database.execute(_UNIQUE_KEYS)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if not self._is_new and _is_damage(error):
                raise NotPatchable(str(error)) from error
            raise disk_error(self._path, error) from error


class NotPatchable(Exception):  # noqa: N818 - no error: the caller writes a new file
    """An earlier ``index.sqlite`` cannot be changed row by row."""


def _check_tables(earlier: Path) -> None:
    """Make sure that a file has the tables that we write, and nothing else: a trigger would run with every row."""
    ours = [statement.strip() for statement in (*_TABLES.split(";"), _UNIQUE_KEYS) if statement.strip()]
    try:
        with closing(open_sqlite(earlier)) as database:
            query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
            found = [str(row[0]) for row in database.execute(query)]
    except sqlite3.Error as error:
        if primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
            raise StorageError(f"cannot copy {earlier} here: {error}", path=str(earlier)) from error
        raise NotPatchable(str(error)) from error
    media = [*MEDIA_TABLES, "CREATE TABLE sqlite_sequence(name,seq)"]
    if sorted(found) not in (sorted(ours), sorted([*ours, *media])):
        raise NotPatchable("its tables are another tool's")


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
        raise StorageError(f"cannot copy {source} here: {error.strerror}", path=str(target)) from error


def _insert_shard(database: sqlite3.Connection, tar_file_id: int, index: ShardIndex) -> None:
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


def _is_damage(error: sqlite3.Error) -> bool:
    return primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
