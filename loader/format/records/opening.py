"""Open files of numbered samples by the formats that their names mean."""

from __future__ import annotations

from ...errors import ConfigError
from ...storage import Storage, open_parent
from ..documents.providers import format_of
from .record_file import RecordFile


def open_record_file(storage: Storage, name: str) -> RecordFile:
    """Open a file of numbered samples.

    Raises:
        ImportError: The package that reads the format is not installed.
    """
    # Imported late: a run with token files needs no parser of JSON, and one with JSONL files no pyarrow.
    match format_of(name):
        case "jsonl":
            from .line_file import LineFile

            return LineFile(storage, name)
        case "binidx":
            from .token_file import TokenFile

            return TokenFile(storage, name)
        case "parquet":
            from .row_file import RowFile

            return RowFile(storage, name)
    raise ConfigError("expected a file whose name ends with .jsonl, .bin or .parquet", at=storage.path(name))


def open_record_path(path: str) -> RecordFile:
    """Open the file of numbered samples at a path; see :func:`open_record_file`."""
    return open_record_file(*open_parent(path))
