"""A writer of ``index.sqlite``, row by row, the index of version 7 of the format."""

import os
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Self

from ..errors import ConfigError, EnergonError
from ..format.compat.sqlite_index import MEDIA_TABLES, TABLES, UNIQUE_KEYS, disk_error


class IndexAggregatable:
    """A row of an index."""


@dataclass(slots=True, kw_only=True)
class IndexSample(IndexAggregatable):
    """The place of a sample: bytes ``[byte_offset, byte_offset + byte_size)`` of a shard, headers included."""

    tar_file_id: int
    sample_key: str
    sample_index: int
    byte_offset: int
    byte_size: int


@dataclass(slots=True, kw_only=True)
class IndexSamplePart(IndexAggregatable):
    """The place of the contents of a part, in bytes of its shard."""

    tar_file_id: int
    sample_index: int
    part_name: str
    content_byte_offset: int
    content_byte_size: int


@dataclass(slots=True, kw_only=True)
class IndexMediaMetadata(IndexAggregatable):
    """The metadata of a media file, as JSON."""

    entry_key: str
    metadata_type: str
    metadata_json: str


class DuplicateSampleKeyError(EnergonError, RuntimeError):
    """Two samples of an index have the same key.

    Args:
        sample_key: The key.
    """

    def __init__(self, sample_key: str) -> None:
        super().__init__(f"Duplicate sample key encountered while indexing: {sample_key!r}")
        self.sample_key = sample_key

    def __reduce__(self) -> Any:
        return type(self), (self.sample_key,)


class SqliteIndexWriter:
    """Write ``index.sqlite`` row by row; use it as a context manager, or call :meth:`close`.

    :class:`WebdatasetPreparator` writes the index of a whole dataset, faster.

    Args:
        sqlite_path: Path of the file, on this machine.
        enable_sample_tables: Write the tables of samples and parts.
        enable_media_metadata: Write the tables of media metadata.
        reset_tables: Delete the rows that these tables have already.

    Raises:
        ConfigError: The tables of samples are to keep their rows.
        StorageError: The file cannot be written.
    """

    def __init__(
        self,
        sqlite_path: str | os.PathLike[str],
        *,
        enable_sample_tables: bool = True,
        enable_media_metadata: bool = False,
        reset_tables: bool = True,
    ) -> None:
        self._path = Path(os.fspath(sqlite_path))
        if enable_sample_tables and not reset_tables:
            raise ConfigError(
                "expected reset_tables=True with enable_sample_tables, found False",
                at=str(self._path),
                hint="to add media metadata to an index, pass enable_sample_tables=False",
            )
        # Tables that exist are kept, unless the caller resets them.
        script = TABLES + UNIQUE_KEYS + ";" if enable_sample_tables else ""
        script += ";".join(MEDIA_TABLES) if enable_media_metadata else ""
        try:
            self._database: sqlite3.Connection | None = sqlite3.connect(self._path)
            for table in re.findall(r"CREATE TABLE (\w+)", script) if reset_tables else ():
                self._database.execute(f"DROP TABLE IF EXISTS {table}")
            self._database.executescript(script.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
        except sqlite3.Error as error:
            raise disk_error(self._path, error) from error

    def append_samples(self, rows: Iterable[IndexSample]) -> None:
        """Append samples: all of them, or none.

        Raises:
            DuplicateSampleKeyError: The key of a sample is in the index, or twice in the rows.
            ConfigError: The writer is closed, a shard has two samples of one number, or a field is None.
        """
        self._append("samples", rows)

    def append_parts(self, rows: Iterable[IndexSamplePart]) -> None:
        """Append parts of samples: all of them, or none.

        Raises:
            ConfigError: The writer is closed, two parts of a sample have one place, or a field is None.
        """
        self._append("sample_parts", rows)

    def append_media_metadata_batch(self, rows: Iterable[IndexMediaMetadata]) -> None:
        """Append or replace the metadata of media files: all of them, or none.

        Raises:
            ConfigError: The writer is closed, or a field is None.
        """
        self._append("media_metadata", rows, verb="REPLACE")

    def append_media_filter(self, *, strategy: str, patterns: str | None) -> None:
        """Record which media files have metadata.

        Raises:
            ConfigError: The writer is closed.
        """
        with self._open() as database:
            database.execute(
                "INSERT OR IGNORE INTO media_filters (strategy, patterns) VALUES (?, ?)", (strategy, patterns)
            )

    def close(self) -> None:
        """Write the file, and close it.

        Raises:
            ConfigError: The writer is closed already.
        """
        self._open().close()
        self._database = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._database is not None:  # else an error after close() would be lost
            self.close()

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            raise ConfigError("this writer of an index is closed", at=str(self._path))
        return self._database

    def _append(self, table: str, rows: Iterable[Any], verb: str = "INSERT") -> None:
        rows = [*rows]  # an iterator has each only once, and an error names one
        values = list(map(astuple, rows))
        if not values:
            return
        for row, of_row in zip(rows, values, strict=True):
            if None in of_row:
                fault = f"expected a value of {fields(row)[of_row.index(None)].name}, found None in {row}"
                raise ConfigError(fault, at=str(self._path))
        marks = ", ".join("?" * len(values[0]))
        try:
            with self._open() as database:  # all rows, or none
                database.executemany(f"{verb} INTO {table} VALUES ({marks})", values)
        except sqlite3.IntegrityError as error:
            if "sample_key" in str(error):
                raise DuplicateSampleKeyError(self._repeated(rows)) from None
            raise ConfigError(f"two rows of {table} have the same place: {error}", at=str(self._path)) from error
        except sqlite3.Error as error:
            raise disk_error(self._path, error) from error

    def _repeated(self, rows: Sequence[IndexSample]) -> str:
        """Return the first key that the index or an earlier row has."""
        query, seen = "SELECT 1 FROM samples WHERE sample_key = ?", set[str]()
        for row in rows[:-1]:
            if row.sample_key in seen or self._open().execute(query, (row.sample_key,)).fetchone():
                return row.sample_key
            seen.add(row.sample_key)
        return rows[-1].sample_key
