"""Records of CSV and TSV files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from ...errors import ConfigError
from .names import extension_of_path, is_link
from .records import Record

__all__ = ["DelimitedReader"]

_MAX_FIELD = 64 << 20  # characters; an open quote would otherwise read the rest of the file into memory
_HEAD_BYTES = 1 << 16
_DELIMITERS = ",;\t|"
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_UTF8 = re.compile("[\ud800-\udfff]")
_TO_UTF8 = "convert the table to UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW"


class DelimitedReader:
    """Reads the records of a CSV or TSV file; fields in quotes may have line breaks.

    The first record names the columns, unless it has URLs, numbers or names of files itself.

    Args:
        file: The file, at its start.
        kind: ``"csv"``, whose delimiter is found in the first line, or ``"tsv"``.
        path: Its path, for errors.

    Raises:
        ConfigError: The file is empty.
    """

    def __init__(self, file: BinaryIO, *, kind: str, path: str) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))  # of the process; there is no other way
        self._path = path
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        self._text = text
        head = text.read(_HEAD_BYTES)
        text.seek(0)
        first_line = head.partition("\n")[0]
        delimiter = "\t" if kind == "tsv" else _delimiter(first_line)
        self._reader = csv.reader(text, delimiter=delimiter, quoting=_quoting(head, delimiter))
        self._end = 0
        first = self._next()
        if first is None:
            raise ConfigError("this table is empty", at=path, hint="name a file with rows")
        self._pending: list[tuple[int, list[str]]] = []
        line, fields = first
        if any(_is_data(field) for field in fields):
            self.names = [f"column_{number}" for number in range(1, len(fields) + 1)]
            self._pending.append((line, fields))
        else:
            self.names = _unique_names(fields)
        self._convert: dict[str, type] = {}

    def find_numbers(self, records: Sequence[Record]) -> None:
        """Note the columns whose values in the first records are numbers."""
        for name in self.names:
            values = [record.values[name] for record in records if record.values.get(name) is not None]
            if values and all(_INTEGER.fullmatch(value) for value in values):
                self._convert[name] = int
            elif values and all(_NUMBER.fullmatch(value) for value in values):
                self._convert[name] = float

    def keep_numbers(self, names: Sequence[str]) -> None:
        """Convert only these columns, which JSON has as numbers; text keeps its digits."""
        self._convert = {name: kind for name, kind in self._convert.items() if name in names}

    def converted(self, record: Record) -> Record:
        """Return a record with the numbers of :meth:`find_numbers`; a value that is none stays text."""
        return Record(
            record.line, {name: self._value(name, value) for name, value in record.values.items()}, *_fault(record)
        )

    def _value(self, name: str, value: Any) -> Any:
        kind = self._convert.get(name)
        if kind is None or value is None:
            return value
        if kind is int and _INTEGER.fullmatch(value):
            return int(value)
        return float(value) if _NUMBER.fullmatch(value) else value

    def __iter__(self) -> Iterator[Record]:
        while self._pending:
            yield self._record(*self._pending.pop(0))
        while (following := self._next()) is not None:
            yield self._record(*following)

    def _next(self) -> tuple[int, list[str]] | None:
        """Return the next record that is not blank, with the number of its first line."""
        while True:
            line = self._end + 1
            try:
                fields = next(self._reader, None)
            except csv.Error as error:
                raise ConfigError(
                    f"the record that starts in line {line:,} cannot be read: {error}",
                    at=f"{self._path}, line {line}",
                    hint="check that its quotes are closed",
                ) from error
            self._end = self._reader.line_num
            if fields is None or fields:
                return None if fields is None else (line, fields)

    def _record(self, line: int, fields: list[str]) -> Record:
        if len(fields) != len(self.names):
            fault = f"expected {len(self.names)} fields, found {len(fields)}"
            return Record(line, {}, fault, "quote fields that contain the delimiter or a line break")
        if any(map(_NOT_UTF8.search, fields)):
            return Record(line, {}, "it is not UTF-8 text", _TO_UTF8)
        return Record(line, {name: value or None for name, value in zip(self.names, fields, strict=True)})


def _fault(record: Record) -> tuple[str, str]:
    return record.fault, record.hint


def _delimiter(line: str) -> str:
    """Return the delimiter that divides a line into the most fields."""
    return max(_DELIMITERS, key=lambda delimiter: len(next(csv.reader([line], delimiter=delimiter), [])))


def _quoting(head: str, delimiter: str) -> Any:
    """Return that quotes are ordinary characters, if TSV has fields that begin with one and do not end with one."""
    if delimiter != "\t":
        return csv.QUOTE_MINIMAL
    lines = head.splitlines()[:-1]
    counts = {line.count("\t") for line in lines if line}
    is_open = any(
        field.startswith('"') and (len(field) == 1 or not field.endswith('"'))
        for line in lines
        for field in line.split("\t")
    )
    return csv.QUOTE_NONE if len(counts) == 1 and is_open else csv.QUOTE_MINIMAL


def _is_data(field: str) -> bool:
    return is_link(field) or bool(_NUMBER.fullmatch(field)) or ("." in field and bool(extension_of_path(field)))


def _unique_names(fields: list[str]) -> list[str]:
    names: list[str] = []
    for number, field in enumerate(fields, 1):
        name = unique = field.strip() or f"column_{number}"
        while unique in names:
            unique = f"{name}_{number}"
            number += len(fields)  # noqa: PLW2901 - another number until the name is free
        names.append(unique)
    return names
