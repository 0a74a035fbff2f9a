"""The records of a CSV or TSV file."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import ConfigError, plural
from .dialect import HEAD_BYTES, IsName, find_dialect, fits, names_columns
from .records import DAMAGE, NOT_UTF8, Record, number_of, open_text_table, to_utf8

_MAX_FIELD = 64 << 20  # characters; an open quote would otherwise read the rest of the file into memory
_QUOTES = "double the quotes within a field, and close it with a quote before the delimiter"
_MAX_LINE_BYTES = 16 << 20  # of lines whose delimiters are counted


class DelimitedReader:
    """Reads the records of a CSV or TSV file.

    Fields of CSV that begin with a quote end with one, and may have line breaks. So do fields of TSV in a column where
    all have quotes, and fields that need quotes. Other quotes are ordinary characters, and a quote that is not closed
    ends with its line.

    The first record names the columns, unless it looks like the others: see :func:`.names_columns`.

    Args:
        file: The file, at its start.
        kind: ``"csv"``, whose delimiter all lines agree on, or ``"tsv"``.
        path: The file, which is opened again if several delimiters fit its first lines.
        is_name: Returns True for the name of a file: a record that has one names no columns.

    Attributes:
        dialect: The form of the file.
        open_quotes: Lines so far with a quote that is not closed, and which are read literally.
    """

    def __init__(self, file: io.BufferedReader, *, kind: str, path: str, is_name: IsName | None = None) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))  # of the process; there is no other way
        # Find the line endings and the form.
        head = file.peek(HEAD_BYTES)[:HEAD_BYTES]
        has_only_returns = b"\n" not in head and b"\r" in head[:-1]  # as old Macs wrote lines
        newline = "\r" if has_only_returns else "\n"
        self._text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline=newline)
        self._path = path
        self._pushed_back: deque[str] = deque()
        self._line = 0  # number of the last line that was read
        self._is_tsv = kind == "tsv"
        self.dialect = find_dialect(head, newline, is_name, partial(_lines_of, path), is_tsv=self._is_tsv)
        self._quoted_field = '"' if self.dialect.skips_blanks else f'{self.dialect.delimiter}"'  # the begin of one
        self.open_quotes: list[int] = []
        self._records = self._read_records()
        # The first record names the columns, unless a comment does or it looks like the others.
        for _ in range(self.dialect.lines_before):
            self._read_line()
        first = next(self._records, None)
        header = self.dialect.header
        if first is None and not header:
            raise ConfigError("this table is empty", at=path, hint="name a file with rows")
        fields = first[1] if first is not None else []
        is_data = header or names_columns(fields, self.dialect.rows[1:], is_name) is False
        self._first = first if is_data else None
        self.has_header = bool(header) or not is_data
        width = self.dialect.width if self.dialect.width > 1 else len(fields)
        names = [*header] or ([f"column_{n}" for n in range(1, width + 1)] if is_data else fields)
        if self.has_header and DAMAGE.search("".join(names).replace("\0", "")):
            raise ConfigError(f"the names of the columns are wrong: {NOT_UTF8}", at=path, hint=to_utf8(path))
        self.names = _unique_names(names)

    def records(self, numbers: Mapping[str, type] | None = None) -> Iterator[Record]:
        """Yield the records, once; values of ``numbers``, column → type, become numbers."""
        if self._first is not None:
            yield self._record(*self._first, numbers or {})
        for line, fields in self._records:
            yield self._record(line, fields, numbers or {})

    def _read_line(self) -> str:
        line = self._pushed_back.popleft() if self._pushed_back else self._text.readline(_MAX_FIELD)
        self._line += bool(line)
        return line

    def _push_back(self, lines: Sequence[str]) -> None:
        self._pushed_back.extendleft(reversed(lines))
        self._line -= sum(map(bool, lines))

    def _read_records(self) -> Iterator[tuple[int, list[str]]]:
        form, quoted_field = self.dialect, self._quoted_field
        delimiter, is_plain = form.delimiter, not form.skips_blanks
        pushed_back, read_line = self._pushed_back, self._text.readline
        while line := pushed_back.popleft() if pushed_back else read_line(_MAX_FIELD):
            self._line = line_number = self._line + 1
            text = line.rstrip("\r\n")
            literal = text.split(delimiter) if is_plain else form.split(text)
            if quoted_field in text or text.startswith('"'):
                yield line_number, self._quoted(line, literal) or literal
            elif text:
                yield line_number, literal

    def _quoted(self, line: str, literal: list[str]) -> list[str] | None:
        """Return the fields of a record with quotes, reading on to its end; None if its first line is literal."""
        line_number, taken, form, fields = self._line, list[str](), self.dialect, list[str]()
        lines = self._lines_of_record(line, taken)
        try:
            # Let the csv module find the end of the record.
            fields = next(csv.reader(lines, delimiter=form.delimiter, skipinitialspace=form.skips_blanks, strict=True))
            is_record = not taken or form.width in (1, len(fields))
        except csv.Error:
            is_record = False
        if not is_record:
            self._push_back(taken)
            if not self._is_tsv:
                self.open_quotes.append(line_number)
            return None
        # In TSV, quotes are mostly ordinary characters.
        needs_quotes = len(literal) != len(fields) or any(set('"\n\r') & set(field) for field in fields)
        return fields if needs_quotes or form.quotes or not self._is_tsv else None

    def _lines_of_record(self, line: str, taken: list[str]) -> Iterator[str]:
        """Yield a line and the lines after it that an open quote may contain; not a line that is a record itself."""
        yield line
        size = len(line)
        # A line with the form of a record ends the search: the quote was not closed.
        while size < _MAX_FIELD and (following := self._read_line()):
            taken.append(following)
            size += len(following)
            text = following.rstrip("\r\n")
            if '"' not in text and fits(self.dialect.split(text), self.dialect, is_tsv=self._is_tsv):
                return
            yield following

    def _record(self, line: int, fields: list[str], numbers: Mapping[str, type]) -> Record:
        # A quote that is not closed explains a wrong number of fields.
        if len(fields) != len(self.names):
            fault = f"expected {plural(len(self.names), 'field')}, found {len(fields)}"
            if self.open_quotes and self.open_quotes[-1] == line:
                return Record(line, {}, f"a quote that opens in this line is not closed; {fault}", _QUOTES)
            return Record(line, {}, fault, "quote fields that contain the delimiter or a line break")
        # Texts that cannot be written are faults.
        text = "".join(fields)
        is_ascii = text.isascii() and "\0" not in text  # as most texts are
        if not is_ascii and (damage := DAMAGE.search(text)) is not None:
            fault = "it has zero bytes, as damaged files and UTF-16 without a mark have"
            return Record(line, {}, fault if damage[0] == "\0" else NOT_UTF8, to_utf8(self._path))
        values: dict[str, Any] = dict(zip(self.names, fields, strict=True))
        if "" in fields:
            values = {name: value or None for name, value in values.items()}
        for name, kind in numbers.items():
            if values[name] is not None:
                values[name] = number_of(values[name], kind)
        return Record(line, values, "", "", len(text))


def _unique_names(fields: Sequence[str]) -> list[str]:
    names: dict[str, None] = {}  # a header may have millions
    for position, field in enumerate(fields, 1):
        text = field.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").replace("\0", "").strip()
        name = unique = text or f"column_{position}"
        while unique in names:
            unique = f"{name}_{position}"
            position += len(fields)  # noqa: PLW2901 - another number until the name is free
        names[unique] = None
    return [*names]


def _lines_of(path: str) -> Iterator[bytes]:
    """Yield the lines of a file, without their ends."""
    with open_text_table(path) as file:
        while line := file.readline(_MAX_LINE_BYTES):
            if len(line) < _MAX_LINE_BYTES and line.strip():
                yield line.rstrip(b"\r\n")
