"""Open files of numbered samples by their format."""

from __future__ import annotations

import os

from ...errors import ConfigError
from ...storage import Storage, open_storage
from ..documents.providers import format_of
from .record_file import RecordFile

__all__ = ["open_record_file", "open_record_path"]


def open_record_file(storage: Storage, name: str) -> RecordFile:
    """Open a file of numbered samples.

    Raises:
        ConfigError: Its name has no suffix of such a format.
        FormatError: It is damaged, or its index is missing or damaged.
        ImportError: The package that reads the format is not installed.
        StorageError: It cannot be read.
    """
    # Imported late: a run with token files needs no parser of JSON, and one with JSONL files no pyarrow.
    match format_of(name):
        case "jsonl":
            from ..jsonl.line_file import LineFile

            return LineFile(storage, name)
        case "binidx":
            from ..binidx.token_file import TokenFile

            return TokenFile(storage, name)
        case "parquet":
            from ..parquet.row_file import RowFile

            return RowFile(storage, name)
    raise ConfigError("expected a file whose name ends with .jsonl, .bin or .parquet", at=storage.path(name))


def open_record_path(path: str) -> RecordFile:
    """Open the file of numbered samples at a path; see :func:`open_record_file`."""
    folder, name = os.path.split(path)
    return open_record_file(open_storage(folder or "."), name)
