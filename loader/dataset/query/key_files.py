"""Read keys from files: text, CSV, JSON lines, Parquet, or the report of ``energon lint --json``."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator

from ...errors import ConfigError, StorageError
from .samples import KeyOrigin, origin_of_row, read_keys

_COLUMNS = ("key", "__key__", "sample", "name")


def keys_and_origins(path: str, *, column: str | None = None) -> tuple[list[str], dict[str, list[KeyOrigin]]]:
    """Return the keys of a file; a quarantine file also names the dataset of each key.

    Args:
        path: As for :func:`keys_of_file`.
        column: The column of a table; of a quarantine file, its keys alone are used, in any dataset.
    """
    keys = keys_of_file(path, column=column)
    if column is not None or not path.lower().endswith(".jsonl"):
        return keys, {}
    origins: dict[str, list[KeyOrigin]] = {}
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for row in map(json.loads, filter(str.strip, file)):
            origin = origin_of_row(row)
            if origin is not None:
                origins.setdefault(row["key"], []).append(origin)
    return keys, origins


def keys_of_file(path: str, *, column: str | None = None) -> list[str]:
    """Return the keys of a file.

    Args:
        path: A text file with one key a line, or ``-`` for standard input; a ``.csv``, ``.tsv``, ``.jsonl`` or
            ``.parquet`` file; or a ``.json`` file that ``energon lint --json`` printed.
        column: The column of a table; None for the one named key, __key__, sample or name, or the only one.

    Raises:
        ConfigError: The file has no such column, or is no report.
        StorageError: It cannot be read.
    """
    try:
        if path == "-":
            return list(read_keys(sys.stdin))
        ending = path.rpartition(".")[2].lower()
        if ending == "parquet":
            return _of_parquet(path, column)
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            if ending in ("csv", "tsv"):
                rows = csv.reader(file, delimiter="," if ending == "csv" else "\t")
                header = next(rows, [])
                place = header.index(_column(header, column, path))
                return [row[place] for row in rows if len(row) > place and row[place]]
            if ending == "json":
                return list(_of_report(json.load(file), path))
            if ending == "jsonl":
                return list(dict.fromkeys(_of_rows(file, column, path)))
            return list(read_keys(file))
    except OSError as error:
        raise StorageError(
            f"cannot read this file: {error.strerror}", path=path, hint="name a file of keys, one a line"
        ) from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise ConfigError(f"cannot read keys from this file: {error}", at=path, hint="check its format") from error


def _of_rows(lines: Iterable[str], column: str | None, path: str) -> Iterator[str]:
    for line in lines:
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ConfigError("expected an object on each line", at=path, hint="check the format of the file")
            yield str(row[_column(list(row), column, path)])


def _of_parquet(path: str, column: str | None) -> list[str]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigError(
            "reading Parquet files needs pyarrow, which is not installed",
            at=path,
            hint="run: pip install 'energon-toolkit[tables]'",
        ) from error
    with parquet.ParquetFile(path) as table:
        name = _column(table.schema_arrow.names, column, path)
        return [str(key) for key in table.read(columns=[name]).column(name).to_pylist() if key is not None]


def _column(names: list[str], wanted: str | None, path: str) -> str:
    if wanted is None:
        found = [name for name in _COLUMNS if name in names] or (names if len(names) == 1 else [])
    else:
        found = [wanted] if wanted in names else []
    if not found:
        what = f"a column {wanted!r}" if wanted is not None else f"a column named {', '.join(_COLUMNS[:-1])} or name"
        raise ConfigError(
            f"expected {what}, found: {', '.join(names) or 'none'}", at=path, hint="name the column of the keys"
        )
    return found[0]


def _of_report(report: object, path: str) -> Iterator[str]:
    findings = report.get("findings") if isinstance(report, dict) else None
    if not isinstance(findings, list) or not all(isinstance(finding, dict) for finding in findings):
        raise ConfigError(
            "expected a report with 'findings'", at=path, hint="make it: energon lint PATH --json > report.json"
        )
    keys = (f"{one['shard']}/{one['key']}" for one in findings if one.get("shard") and one.get("key"))
    yield from dict.fromkeys(keys)
