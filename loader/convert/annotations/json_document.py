"""Find the values in a document of JSON piece by piece: one of gigabytes takes the memory of its largest value."""

from __future__ import annotations

import codecs
import json
import re
import shutil
import tempfile
from array import array
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from ...errors import FormatError
from ...parts.large_parts import CHECKED_JSON_BYTES
from ...storage import ClosesOnExit, ReadableFile, is_url, open_parent
from ..tables.records import ENCODING_BYTES, TOO_LONG, open_text_table, refuse_utf16

_CHUNK_BYTES = 1 << 20
_CUT_BYTES = 16  # before the end of a piece, where a number or constant may be cut, so that it seems to be damaged
_TRUNCATED = "Input data was truncated"
_BLANK = b" \t\r\n"
_FILLED = re.compile(rb"[^ \t\r\n]")
# A text, which the end of a piece may cut, or a constant that Python writes and JSON does not have.
_TEXT_OR_CONSTANT = re.compile(rb'"(?:[^"\\]++|\\.)*+("|\\?\Z)|-?\b(?:NaN|Infinity)\b', re.DOTALL)
_STEPS = np.zeros(256, np.int64)  # in depth, by character
_STEPS[[*b"[{"]], _STEPS[[*b"]}"]] = 1, -1


class Value(NamedTuple):
    """A value in a document.

    Attributes:
        offset: Its first byte in the file.
        data: Its JSON, in which NaN and infinity are as in the file; empty if it has a fault.
        fault: Why it cannot be read, although what follows can; an empty text for most.
    """

    offset: int
    data: bytes
    fault: str = ""


class JsonDocument(ClosesOnExit):
    """A document of JSON, read from its start to its end.

    Args:
        path: The file or its URL; a URL is copied first, and a file compressed by gzip is decompressed to a new one.
    """

    def __init__(self, path: str) -> None:
        storage, name = open_parent(path)
        if is_url(path):
            storage, name = open_parent(str(storage.local_path(name)))
        self._path = path
        self._unpacked = tempfile.NamedTemporaryFile() if path.lower().endswith(".gz") else None  # noqa: SIM115 - closed below
        if self._unpacked is not None:
            with open_text_table(path) as packed:
                shutil.copyfileobj(packed, self._unpacked)
            self._unpacked.flush()
            storage, name = open_parent(self._unpacked.name)
        self._file: ReadableFile = storage.open(name)
        head = self._file.read_at(0, min(ENCODING_BYTES, self._file.size_bytes))
        refuse_utf16(head, path)
        self._begin = self._start = 3 if head.startswith(codecs.BOM_UTF8) else 0
        self._buffer = self._text = b""  # from the offset _start on; in the text, constants are numbers
        self._at = 0  # in the buffer
        self._has_constants = False

    def peek(self) -> bytes:
        """Move to the next character that is not blank, and return it; an empty one at the end."""
        while (character := self._text[self._at : self._at + 1]) <= b" ":
            match = _FILLED.search(self._text, self._at)
            self._at = match.start() if match else len(self._text)
            if match or not self._fill():
                return match[0] if match else b""
        return character

    def items(self, close: bytes) -> Iterator[None]:
        """Yield at each item of the list or object that begins here, up to its bracket; the caller takes each item."""
        self._at += 1
        character = self.peek()
        while character != close:
            yield
            character = self.peek()
            if character == close:
                break
            if character != b",":
                raise self.fault(f"expected ',' or '{close.decode()}'" if character else _TRUNCATED)
            self._at += 1
            if self.peek() == close:
                raise self.fault(f"trailing comma in {'array' if close == b']' else 'object'}")
        self._at += 1

    def fields(self) -> Iterator[str]:
        """Yield the names in the object that begins here; the caller takes the value of each."""
        for _ in self.items(b"}"):
            if self.peek() not in (b'"', b""):
                raise self.fault("object keys must be strings")
            name = self.value()
            if name.fault or self.peek() != b":":
                raise self.fault(name.fault or "expected ':'")
            self._at += 1
            yield json.loads(name.data.decode("utf-8", "replace"))

    def places(self) -> tuple[array[int], array[int]]:
        """Read the list that begins here; return the offsets and sizes of its elements, for :meth:`read`."""
        starts, sizes = array("q"), array("q")
        for _ in self.items(b"]"):
            starts.append(self.value().offset)
            sizes.append(self._start + self._at - starts[-1])
        return starts, sizes

    def value(self) -> Value:
        """Read the value that begins here, and that a comma or a bracket follows."""
        offset = self._start + self._at
        while True:
            # Try to find the end of the value in the piece that is read.
            left = len(self._text) - self._at
            size, fault = _end_of_value(memoryview(self._text)[self._at :])
            stop = self._at + size
            if not fault:
                data, self._at = self._buffer[self._at : stop], stop
                return Value(offset, b"", TOO_LONG) if size > CHECKED_JSON_BYTES else Value(offset, data.rstrip(_BLANK))
            # Damage before the end of the piece cannot be one of a value that is cut.
            if self._text[stop : stop + 1] in (b"N", b"I") and not self._has_constants:
                self._has_constants = True
                self._text = _TEXT_OR_CONSTANT.sub(_as_number, self._buffer)
            elif fault == _TOO_DEEP or (left > CHECKED_JSON_BYTES and size + _CUT_BYTES >= left):
                self._skip()
                return Value(offset, b"", TOO_LONG if fault != _TOO_DEEP else fault)
            elif size + _CUT_BYTES < left or not self._fill():
                raise self.fault(fault, size)

    def read(self, offset: int, size_bytes: int) -> Value:
        if size_bytes > CHECKED_JSON_BYTES:
            return Value(offset, b"", TOO_LONG)
        return Value(offset, self._file.read_at(offset, size_bytes).rstrip(_BLANK))

    def end(self) -> None:
        if self.peek():
            raise self.fault("trailing characters")

    def fault(self, reason: str, ahead: int = 0) -> FormatError:
        """Return an error with the line and column of the present place, or of a byte after it."""
        offset = self._start + self._at + ahead
        line, line_start = 1, self._begin
        # Count lines from the beginning: they are needed in an error only.
        for start in range(self._begin, offset, _CHUNK_BYTES):
            data = self._file.read_at(start, min(_CHUNK_BYTES, offset - start))
            line += data.count(b"\n")
            line_start = start + data.rfind(b"\n") + 1 if b"\n" in data else line_start
        reason = reason if self._file.size_bytes > self._begin else "the file is empty"
        return FormatError(
            f"this is not valid JSON: {reason}; line {line:,}, column {offset - line_start + 1:,}",
            shard=self._path,
            offset=offset,
            hint="correct it there, or download it again",
        )

    def close(self) -> None:
        self._file.close()
        if self._unpacked is not None:
            self._unpacked.close()

    def _fill(self) -> bool:
        """Read on, and forget what was taken; return False at the end of the file."""
        # A value that is longer than the piece doubles what is read, up to the limit of a value.
        left = len(self._buffer) - self._at
        size_bytes = max(_CHUNK_BYTES, min(left, CHECKED_JSON_BYTES - left))
        data = self._file.read_at(self._start + len(self._buffer), size_bytes)
        self._buffer, self._start, self._at = self._buffer[self._at :] + data, self._start + self._at, 0
        self._text = _TEXT_OR_CONSTANT.sub(_as_number, self._buffer) if self._has_constants else self._buffer
        return bool(data)

    def _skip(self) -> None:
        """Move to the comma or bracket after the value that begins here, without holding the value."""
        depth, cut = 0, b""  # the beginning of a text that is cut

        # Blank texts, whose brackets and commas do not count; note one that the end of the piece cuts.
        def blank(match: re.Match[bytes]) -> bytes:
            nonlocal cut
            cut = b"" if match[1] in (b'"', None) else b'"' + match[1]
            return b" " * len(match[0])

        while self._at < len(self._buffer) or self._fill():
            before = len(cut)
            # Follow the depth of brackets through a piece.
            text, cut = cut + self._buffer[self._at : self._at + _CHUNK_BYTES], b""
            codes = np.frombuffer(_TEXT_OR_CONSTANT.sub(blank, text), np.uint8)
            depths = depth + np.cumsum(_STEPS[codes])
            ends = np.flatnonzero((depths < 0) | ((depths == 0) & (codes == ord(","))))
            # The value ends at the first comma on its level, or at the bracket of the level above.
            self._at += (int(ends[0]) if len(ends) else len(text)) - before
            depth = int(depths[-1])
            if len(ends):
                self._fill()  # the text begins at a value again
                return
        raise self.fault(_TRUNCATED)


_TOO_DEEP = "it is nested too deeply"


def _end_of_value(text: memoryview) -> tuple[int, str]:
    """Return where something follows the first value of a text; or where it is damaged, or ends, and the fault."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        return len(text), _TOO_DEEP
    except msgspec.MsgspecError as error:
        fault, _, offset = str(error).removeprefix("JSON is malformed: ").partition(" (byte ")
        if fault == "trailing characters":
            return int(offset[:-1]) - 1, ""  # the offset is that of the byte after the first of them
        return int(offset[:-1]) if offset else len(text), fault
    return len(text), _TRUNCATED  # nothing follows, so it may continue


def without_constants(data: bytes) -> bytes:
    """Return JSON with null for NaN and infinity."""
    return _TEXT_OR_CONSTANT.sub(lambda match: b"null" if match[1] is None else match[0], data)


def _as_number(match: re.Match[bytes]) -> bytes:
    return match[0] if match[1] is not None else b"0".ljust(len(match[0]))
