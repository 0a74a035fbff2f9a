"""A record of a text table, and files of text tables."""

from __future__ import annotations

import gzip
import io
import os
import posixpath
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from ...errors import StorageError
from ...storage import FileStream, open_parent
from .columns import ColumnType, TableColumn

__all__ = ["Record", "folder_of", "open_text_table", "table_columns"]

_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a text table.

    Attributes:
        line: Number of its first line, from 1.
        values: Column → value; empty if the record is invalid.
        fault: What was expected and what was found, if it is invalid.
        hint: What the user can do about it.
    """

    line: int
    values: dict[str, Any]
    fault: str = ""
    hint: str = ""


@contextmanager
def open_text_table(path: str) -> Iterator[BinaryIO]:
    """Open a file or URL, decompressed if its name ends in ``.gz``.

    Raises:
        StorageError: It cannot be read, or is not in the format of gzip.
    """
    storage, name = open_parent(path)
    with storage.open(name) as file, closing(io.BufferedReader(FileStream(file), _BUFFER_BYTES)) as plain:
        if not path.lower().endswith(".gz"):
            yield plain
            return
        try:
            with gzip.open(plain) as unpacked:
                yield cast("BinaryIO", unpacked)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise StorageError(f"this file cannot be decompressed: {error}", path=path, hint="copy it again") from error


def folder_of(path: str) -> str:
    """Return the folder of a file or URL.

    >>> folder_of("s3://bucket/a/b.csv"), folder_of("b.csv")
    ('s3://bucket/a', '.')
    """
    return (posixpath.dirname(path) if "://" in path else os.path.dirname(path)) or "."


def table_columns(names: Sequence[str], records: Sequence[Record]) -> list[TableColumn]:
    """Return columns with their types from the first records."""
    columns = []
    for name in names:
        values = tuple(record.values.get(name) for record in records if not record.fault)
        columns.append(TableColumn(name=name, type=_type_of([v for v in values if v is not None]), values=values))
    return columns


def _type_of(values: Sequence[Any]) -> ColumnType:
    if not values:
        return "empty"
    if all(isinstance(value, str) for value in values):
        return "text"
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return "integer"
    if all(isinstance(value, int | float) for value in values):
        return "number"
    return "nested"
