"""A record of a CSV, TSV or JSONL file, and these files."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import posixpath
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, BinaryIO, NamedTuple

import msgspec

from ...accounting.large_parts import CHECKED_JSON_BYTES
from ...accounting.other_file import refuse_other_file
from ...errors import ConfigError, StorageError, plural
from ...storage import FileStream, open_parent
from ...storage.unpacked import UnpackedFile
from .named_files import is_link, looks_like_file

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
"""Integers as JSON writes them; others, such as ``007``, are texts."""
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""Numbers as JSON writes them."""

_FREE_BYTES = 4 << 20  # half a million short rows, which take some seconds
_BUFFER_BYTES = 1 << 20
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}  # before those of UTF-16, as they begin alike
_MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class Record(NamedTuple):
    """A record of a text table.

    Attributes:
        line: Number of its first line, from 1.
        values: Column → value; empty if the record is invalid.
        fault: What was expected and what was found, if it is invalid.
    """

    line: int
    values: dict[str, Any]
    fault: str = ""
    hint: str = ""
    size_bytes: int = 0


@contextmanager
def open_text_table(path: str, notes: list[str] | None = None) -> Iterator[io.BufferedReader]:
    """Open a file or URL as UTF-8, decompressed if its name ends in ``.gz``; note another encoding."""
    storage, name = open_parent(path)
    with storage.open(name) as file, closing(io.BufferedReader(FileStream(file), _BUFFER_BYTES)) as plain:
        if not path.lower().endswith(".gz"):
            refuse_other_file(path, "text")
            yield _as_utf8(plain, path, notes)
            return
        try:
            with gzip.open(plain) as unpacked:
                bounded = io.BufferedReader(UnpackedFile(unpacked, plain, path, free_bytes=_FREE_BYTES), _BUFFER_BYTES)
                yield _as_utf8(bounded, path, notes)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            refuse_other_file(path, "gz")
            raise StorageError(f"this file cannot be decompressed: {error}", path=path, hint="copy it again") from error


def _as_utf8(file: io.BufferedReader[Any], path: str, notes: list[str] | None) -> io.BufferedReader:
    head = file.peek(4)[:4]
    encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if encoding is None:
        return file
    if notes is not None:
        notes.append(f"{path} is read as {encoding.upper()}, as its byte order mark says")
    return io.BufferedReader(_Recoded(file, encoding), _BUFFER_BYTES)


def folder_of(path: str) -> str:
    """Return the folder of a file or URL.

    >>> folder_of("s3://bucket/a/b.csv"), folder_of("b.csv")
    ('s3://bucket/a', '.')
    """
    return (posixpath.dirname(path) if "://" in path else os.path.dirname(path)) or "."


def number_of(text: str, kind: type) -> Any:
    """Return a text of a column of numbers as ``int`` or ``float``; as it is if it is none.

    >>> number_of("7", int), number_of("7", float), number_of("007", int)
    (7, 7.0, '007')
    """
    pattern = INTEGER if kind is int else NUMBER
    return kind(text) if pattern.fullmatch(text) else text


class _Recoded(io.RawIOBase):
    """A text file in UTF-8, whatever its encoding is."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._text = io.TextIOWrapper(file, encoding, errors="replace", newline="")
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or self._text.read(_BUFFER_BYTES).encode("utf-8", "replace")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


TOO_LONG = f"it is longer than {CHECKED_JSON_BYTES:,} bytes"
"""The fault of a line, or of an element of a list, that is not held in memory."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HINT = "correct or remove that line; JSON over several lines: jq -c . converts it"


def bounded_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines that are not blank: their numbers, from 1, and texts; None for one that is too long."""
    line_number = 0
    while line := file.readline(CHECKED_JSON_BYTES):
        line_number += 1
        # Skip the rest of a line that is too long.
        if len(line) == CHECKED_JSON_BYTES and not line.endswith(b"\n"):
            while (line := file.readline(_BUFFER_BYTES)) and not line.endswith(b"\n"):
                pass
            yield line_number, None
            continue
        line = line if line_number > 1 else line.removeprefix(_BYTE_ORDER_MARK)
        # Other line endings divide a line, too.
        for text in filter(None, map(bytes.strip, line.splitlines())):
            yield line_number, text


def read_json_lines(file: BinaryIO) -> Iterator[Record]:
    """Yield the records of a JSONL file; a line of more than 64 MiB is a record with a fault."""
    for line_number, text in bounded_lines(file):
        yield parse_record(line_number, text)


def read_words(file: BinaryIO) -> Iterator[Record]:
    """Yield a record of each line: its first word, and the text behind it, if any line has one.

    Lines before the first record that begin with ``#`` are comments.
    """
    is_comment = True
    for line_number, line in bounded_lines(file):
        is_comment = is_comment and (line or b"").startswith(b"#")
        if is_comment:
            continue
        fields = (line or b"").decode("utf-8", "surrogateescape").split(maxsplit=1)
        fault = TOO_LONG if line is None else "it is not UTF-8 text" if _DAMAGE.search("".join(fields)) else ""
        values = {f"column_{position}": field for position, field in enumerate(fields, 1)}
        yield Record(line_number, {} if fault else values, fault, size_bytes=len(line or b""))


def parse_record(line_number: int, text: bytes | msgspec.Raw | None) -> Record:
    """Return a record of JSON, which is invalid if the text is not an object; None is a text that is too long."""
    if text is None:
        return Record(line_number, {}, TOO_LONG, "divide it, or remove it")
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        try:
            value = json.loads(bytes(text))  # reads NaN, which Python writes
        except (ValueError, RecursionError):
            return Record(line_number, {}, f"it is not JSON: {error}", _HINT)
    if not isinstance(value, dict):
        return Record(line_number, {}, f"expected an object of JSON, found {type(value).__name__}", _HINT)
    return Record(line_number, value, size_bytes=memoryview(text).nbytes)


_MAX_FIELD = 64 << 20  # characters; an open quote would otherwise read the rest of the file into memory
_HEAD_BYTES = 1 << 16
_DELIMITERS = ",;\t|"
_LINES_TRIED = 100  # by delimiters, to find names of files
_DAMAGE = re.compile("[\0\ud800-\udfff]")
_TO_UTF8 = "convert the table to UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW"
_QUOTES = "double the quotes within a field, and close it with a quote before the delimiter"


class DelimitedReader:
    """Reads the records of a CSV or TSV file.

    Fields of CSV that begin with a quote end with one, and may have line breaks. So do fields of TSV in a file whose
    first record has no others, and fields that need quotes. Other quotes are ordinary characters, and a quote that is
    not closed ends with its line.

    The first record names the columns, unless it has URLs, numbers or names of files itself.

    Args:
        file: The file, at its start.
        kind: ``"csv"``, whose delimiter all of the first lines agree on, or ``"tsv"``.
        is_name: Returns True for the name of a file: a record that has one names no columns.

    Attributes:
        open_quotes: Lines so far with a quote that is not closed, and which are read literally.
    """

    def __init__(
        self,
        file: io.BufferedReader,
        *,
        kind: str,
        path: str,
        is_name: Callable[[str], bool] | None = None,
    ) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))  # of the process; there is no other way
        # Find the line endings and the delimiter.
        head = file.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        has_only_returns = b"\n" not in head and b"\r" in head[:-1]  # as old Macs wrote lines
        newline = "\r" if has_only_returns else "\n"
        self._text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline=newline)
        self._pushed_back: deque[str] = deque()
        self._line = 0  # number of the last line that was read
        self._is_tsv = kind == "tsv"
        first_line = self._read_line()
        self._push_back([first_line])
        self._delimiter = "\t" if self._is_tsv else delimiter_of(head, first_line, is_name) or ","
        self._quoted_field = f'{self._delimiter}"'  # the begin of one
        fields = first_line.strip("\r\n").split(self._delimiter)
        self._quotes_all = all(len(field) > 1 and field[0] == field[-1] == '"' for field in fields)
        self.open_quotes: list[int] = []
        self._records = self._read_records()
        # The first record names the columns, unless it has values.
        first = next(self._records, None)
        if first is None:
            raise ConfigError("this table is empty", at=path, hint="name a file with rows")
        has_values = any(_shape(field) != "text" or (is_name is not None and is_name(field)) for field in first[1])
        self._first = first if has_values and not _are_positions(first[1]) else None
        self.names = _unique_names([f"column_{n}" for n, _ in enumerate(first[1], 1)] if self._first else first[1])

    @property
    def has_header(self) -> bool:
        """True if the first record names the columns."""
        return self._first is None

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
        while line := self._read_line():
            line_number = self._line
            text = line.rstrip("\r\n")
            literal = text.split(self._delimiter)
            if text.startswith('"') or self._quoted_field in text:
                yield line_number, self._quoted(line, literal) or literal
            elif text:
                yield line_number, literal

    def _quoted(self, line: str, literal: list[str]) -> list[str] | None:
        """Return the fields of a record with quotes, reading on to its end; None if its first line is literal."""
        line_number, taken = self._line, list[str]()
        lines = self._lines_of_record(line, literal, taken)
        try:
            # Let the csv module find the end of the record.
            fields = next(csv.reader(lines, delimiter=self._delimiter, strict=True))
        except csv.Error:
            self._push_back(taken)
            if not self._is_tsv:
                self.open_quotes.append(line_number)
            return None
        # In TSV, quotes are mostly ordinary characters.
        needs_quotes = len(literal) != len(fields) or any(set('"\n') & set(field) for field in fields)
        return fields if needs_quotes or self._quotes_all or not self._is_tsv else None

    def _lines_of_record(self, line: str, literal: list[str], taken: list[str]) -> Iterator[str]:
        """Yield a line and the lines after it that an open quote may contain; not a line that is a record itself."""
        yield line
        size = len(line)
        # A line with the form of a record ends the search: the quote was not closed.
        while size < _MAX_FIELD and (following := self._read_line()):
            taken.append(following)
            size += len(following)
            if self._is_alike(literal, following.rstrip("\r\n").split(self._delimiter)):
                return
            yield following

    def _is_alike(self, literal: list[str], fields: list[str]) -> bool:
        """Return True if a line has the form of another one: as many fields, and paths, URLs and numbers as there."""
        if len(fields) != len(literal) or len(fields) == 1:
            return False
        shapes = [(_shape(a), _shape(b)) for a, b in zip(literal, fields, strict=True) if not a.startswith('"')]
        # Texts rarely have tabs, but commas.
        return self._is_tsv or (any(a != "text" for a, _ in shapes) and all(a == b for a, b in shapes))

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
        if not is_ascii and (damage := _DAMAGE.search(text)) is not None:
            fault = "it has zero bytes, as damaged files and UTF-16 without a mark have"
            return Record(line, {}, fault if damage[0] == "\0" else "it is not UTF-8 text", _TO_UTF8)
        values: dict[str, Any] = dict(zip(self.names, fields, strict=True))
        if "" in fields:
            values = {name: value or None for name, value in values.items()}
        for name, kind in numbers.items():
            if values[name] is not None:
                values[name] = number_of(values[name], kind)
        return Record(line, values, "", "", len(text))


def delimiter_of(head: bytes, line: str, is_name: Callable[[str], bool] | None = None) -> str:
    """Return the delimiter by which all lines at the begin of a file have as many fields; else the best for the first.

    Args:
        is_name: Returns True for the name of a file: a delimiter by which a field of each line is one has precedence.
    """
    lines = head.decode("utf-8", "replace").splitlines()
    lines = [text for text in lines[: -1 if len(head) >= _HEAD_BYTES else None] if text]
    if is_name is not None:
        rows = lines[1:_LINES_TRIED] or lines
        # A blank divides a line once: a name and a text, or an id and a name.
        cut = {d: [fields for text in rows if len(fields := text.split(d)) > 1] for d in _DELIMITERS}
        cut[""] = [text.split(maxsplit=1) for text in rows]
        named = {d: sum(any(map(is_name, fields)) for fields in lines) for d, lines in cut.items()}
        best = max(named, key=lambda d: named[d])
        if 2 * named[best] > len(rows):
            return best
    counts = {d: {len(fields) for fields in csv.reader(lines, delimiter=d) if fields} for d in _DELIMITERS}
    agreed = {delimiter: max(count) for delimiter, count in counts.items() if len(count) == 1 and max(count) > 1}
    if agreed or not line:
        return max(agreed, key=lambda delimiter: agreed[delimiter], default="")
    return max(_DELIMITERS, key=lambda delimiter: len(next(csv.reader([line], delimiter=delimiter), [])))


def _are_positions(fields: list[str]) -> bool:
    """Return True for the names that pandas gives to columns: ascending numbers from 0."""
    return len(fields) > 1 and fields == [*map(str, range(len(fields)))]


def _shape(field: str) -> str:
    if NUMBER.fullmatch(field):
        return "number"
    if is_link(field):
        return "link"
    return "file" if looks_like_file(field) else "text"


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
