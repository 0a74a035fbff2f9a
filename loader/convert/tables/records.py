"""A record of a text table, and files of text tables."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import posixpath
import re
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from ...errors import StorageError
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
def open_text_table(path: str, notes: list[str] | None = None) -> Iterator[BinaryIO]:
    """Open a file or URL as UTF-8, decompressed if its name ends in ``.gz``.

    Args:
        path: The file or URL.
        notes: Gets a sentence if a byte order mark says that the file has another encoding.

    Raises:
        FormatError: It unpacks to very much more than its size.
        StorageError: It cannot be read, or is not in the format of gzip.
    """
    storage, name = open_parent(path)
    with storage.open(name) as file, closing(io.BufferedReader(FileStream(file), _BUFFER_BYTES)) as plain:
        if not path.lower().endswith(".gz"):
            yield _as_utf8(plain, path, notes)
            return
        try:
            with gzip.open(plain) as unpacked:
                bounded = io.BufferedReader(UnpackedFile(unpacked, plain, path, free_bytes=_FREE_BYTES), _BUFFER_BYTES)
                yield _as_utf8(bounded, path, notes)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise StorageError(f"this file cannot be decompressed: {error}", path=path, hint="copy it again") from error


def _as_utf8(file: Any, path: str, notes: list[str] | None) -> BinaryIO:
    head = file.peek(4)[:4]
    encoding = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if encoding is None:
        return cast("BinaryIO", file)
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
