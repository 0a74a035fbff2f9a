"""A record of a text table, files of lines, and their encodings."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import posixpath
import re
import shlex
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO, NamedTuple

import msgspec

from ...errors import ConfigError, StorageError
from ...parts.large_parts import CHECKED_JSON_BYTES
from ...parts.other_file import refuse_other_file
from ...storage import FileStream, open_parent
from ...storage.unpacked import UnpackedFile

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
"""Integers as JSON writes them; others, such as ``007``, are texts."""
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""Numbers as JSON writes them."""

_FREE_BYTES = 4 << 20  # half a million short rows, which take some seconds
_BUFFER_BYTES = 1 << 20
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}  # before those of UTF-16, as they begin alike
_MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


ENCODING_BYTES = 64
"""The first bytes of a file, which show UTF-16."""


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
def open_text_table(path: str, notes: list[str] | None = None, *, shown: str = "") -> Iterator[io.BufferedReader]:
    """Open a file or URL as UTF-8, decompressed if its name ends in ``.gz``; note another encoding.

    Args:
        shown: The path for messages about its encoding, if the file is a copy.
    """
    storage, name = open_parent(path)
    with storage.open(name) as file, closing(io.BufferedReader(FileStream(file), _BUFFER_BYTES)) as plain:
        if not path.lower().endswith(".gz"):
            refuse_other_file(path, "text")
            yield _as_utf8(plain, shown or path, notes)
            return
        try:
            with gzip.open(plain) as unpacked:
                bounded = io.BufferedReader(UnpackedFile(unpacked, plain, path, free_bytes=_FREE_BYTES), _BUFFER_BYTES)
                yield _as_utf8(bounded, shown or path, notes)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            refuse_other_file(path, "gz")
            raise StorageError(f"this file cannot be decompressed: {error}", path=path, hint="copy it again") from error


def _as_utf8(file: io.BufferedReader[Any], path: str, notes: list[str] | None) -> io.BufferedReader:
    head = file.peek(ENCODING_BYTES)[:ENCODING_BYTES]
    encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if encoding is None:
        refuse_utf16(head, path)
        return file
    if notes is not None:
        notes.append(f"{path} is read as {encoding.upper()}, as its byte order mark says")
    return io.BufferedReader(_Recoded(file, encoding), _BUFFER_BYTES)


def refuse_utf16(head: bytes, path: str) -> None:
    """Raise a ``ConfigError`` for UTF-16 text, by the first bytes of a file: of most characters, one of two is zero."""
    zeros = [2 * head[n::2].count(0) > len(head[n::2]) for n in (0, 1)]
    if any(zeros) and not all(zeros):
        encoding = "UTF-16BE" if zeros[0] else "UTF-16LE"
        raise ConfigError("expected UTF-8 text, found UTF-16 text", at=path, hint=to_utf8(path, encoding))


def to_utf8(path: str, encoding: str = "CP1252") -> str:
    """Return the command that converts a table, by default from the encoding of Windows.

    >>> to_utf8("a b.csv")
    "convert the table to UTF-8: iconv -f CP1252 -t UTF-8 'a b.csv' > NEW"
    """
    return f"convert the table to UTF-8: iconv -f {encoding} -t UTF-8 {shlex.quote(path)} > NEW"


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
NOT_UTF8 = "it is not UTF-8 text"
"""The fault of a record with other bytes."""
DAMAGE = re.compile("[\0\ud800-\udfff]")
"""Characters that no record has: zero bytes, and bytes that are not UTF-8."""
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


def read_words(file: BinaryIO, delimiter: str | None = None) -> Iterator[Record]:
    """Yield a record of each line: its first word, and the text behind it, if any line has one.

    Lines before the first record that begin with ``#`` are comments.
    """
    is_comment = True
    for line_number, line in bounded_lines(file):
        is_comment = is_comment and (line or b"").startswith(b"#")
        if is_comment:
            continue
        fields = (line or b"").decode("utf-8", "surrogateescape").split(delimiter, 1)
        fault = TOO_LONG if line is None else NOT_UTF8 if DAMAGE.search("".join(fields)) else ""
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
        except UnicodeDecodeError:
            return Record(line_number, {}, NOT_UTF8, to_utf8("FILE"))
        except (ValueError, RecursionError):
            return Record(line_number, {}, f"it is not JSON: {error}", _HINT)
    if not isinstance(value, dict):
        return Record(line_number, {}, f"expected an object of JSON, found {type(value).__name__}", _HINT)
    return Record(line_number, value, size_bytes=memoryview(text).nbytes)
