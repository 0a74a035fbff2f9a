"""Find the lines of a JSONL file and check that each is one JSON object, in constant memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import FormatError
from ...parts.large_parts import CHECKED_JSON_BYTES
from ...storage import ReadableFile

BYTE_ORDER_MARK = codecs.BOM_UTF8

_CHUNK_BYTES = 1 << 20
_SHOWN_BYTES = 60
_NEWLINE, _RETURN, _OPEN, _CLOSE = b"\n\r{}"


class _AnyObject(msgspec.Struct):
    """A JSON object of any content. Decoding to this type checks the grammar and builds no values."""


_decoder = msgspec.json.Decoder(_AnyObject)


def scan_lines(
    file: ReadableFile, path: str, progress: Callable[[int], None] | None = None
) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the byte offsets of the lines that are not blank, many at a time.

    Args:
        file: File to read once from start to end.
    """
    for block in line_blocks(file, path):
        block.check_encoding()
        yield block.starts()
        if progress is not None:
            progress(block.stop)


def line_blocks(file: ReadableFile, path: str) -> Iterator[LineBlock]:
    """Yield the lines of a file, many at a time.

    Of a line of more than 64 MiB only the first and last bytes are held and checked; it has a block of its own.

    Args:
        file: File to read once from start to end.
    """
    pending: list[bytes] = []  # pieces of a line that continues in the next chunk
    offset = begin = lines = 0
    while offset < file.size_bytes:
        chunk = file.read_at(offset, _CHUNK_BYTES)
        if not chunk:
            raise FormatError(
                f"this file ended while it was read; expected {file.size_bytes:,} bytes", shard=path, offset=offset
            )
        # Cut the chunk after its last line; a very long line is cut off at its own end.
        is_long = offset - begin > CHECKED_JSON_BYTES
        offset += len(chunk)
        cut = (chunk.find(b"\n") if is_long else chunk.rfind(b"\n")) + 1
        # The line continues in the next chunk: keep it, or only its ends if it is very long.
        if not cut and offset < file.size_bytes:
            pending.append(chunk)
            if len(pending) <= 2:
                LineBlock(b"".join(pending), begin, lines, path).check_beginning()
            del pending[1 : -1 if is_long else 1]
            continue
        # Yield the whole lines, and keep the rest of the chunk.
        cut = cut if is_long and cut else len(chunk) if offset == file.size_bytes else cut
        data = b"".join([*pending, chunk[:cut]])
        stop = offset - len(chunk) + cut
        pending = [] if is_long else [chunk[cut:]]
        offset = stop if is_long else offset
        yield (
            LineBlock(_ends_of_line(data), begin, lines, path, stop=stop)
            if is_long
            else LineBlock(data, begin, lines, path)
        )
        begin, lines = stop, lines + data.count(b"\n")


def _ends_of_line(data: bytes) -> bytes:
    """Return a short line instead of a long one: an object if it begins and ends like one."""
    text = data.removeprefix(BYTE_ORDER_MARK).strip()
    if text.startswith(b"{") and text.endswith(b"}"):
        return b"{}\n"
    return text[:_SHOWN_BYTES] + text[-1:] + b"\n"


class ExaminedLine(NamedTuple):
    """A line that is not blank."""

    number: int  # number of the line in the file, from 1
    offset: int  # byte offset of the line in the file
    fault: str | None  # reason why the line is not one JSON object; None if it is
    is_utf8: bool  # true if the line is UTF-8


class LineBlock:
    """Whole lines of a file.

    Args:
        data: Bytes of the lines. Only the last line of a file may lack its line break.
        stop: Offset of the end of a very long line; its data are only the first and last bytes.

    Attributes:
        is_cut: True for such a line.
    """

    def __init__(self, data: bytes, offset: int, lines_before: int, path: str, *, stop: int | None = None) -> None:
        self._data = data
        self.offset = offset
        self.stop = offset + len(data) if stop is None else stop
        self.is_cut = stop is not None
        self._lines_before = lines_before
        self._path = path

    def check_encoding(self) -> None:
        """Raise a ``FormatError`` if a line is not UTF-8, which :meth:`starts` requires."""
        try:
            if not self._data.isascii():
                self._data.decode()
        except UnicodeDecodeError as error:
            raise FormatError(
                f"line {self._lines_before + 1 + self._data.count(_NEWLINE, 0, error.start)} is not UTF-8:"
                f" {error.reason}",
                shard=self._path,
                offset=self.offset + error.start,
                hint="convert the file: iconv -f LATIN1 -t UTF-8",
            ) from error

    def starts(self) -> npt.NDArray[np.uint64]:
        """Check each line, and return the byte offsets of all lines with text."""
        data = np.frombuffer(self._data, np.uint8)
        ends = np.flatnonzero(data == _NEWLINE)
        if data[-1] != _NEWLINE:
            ends = np.append(ends, len(data))
        begins = np.concatenate([[0], ends[:-1] + 1])
        # An index of -1 occurs only for an empty first line, which the next statement drops.
        ends -= (data[ends - 1] == _RETURN) & (ends > begins)
        filled = np.flatnonzero(ends > begins)
        in_braces = (data[begins[filled]] == _OPEN) & (data[ends[filled] - 1] == _CLOSE)
        blank = []
        for line in filled[~in_braces].tolist():
            text = self._line(begins[line], ends[line])
            if not text:
                blank.append(line)
            elif not (text.startswith(b"{") and text.endswith(b"}")):
                raise self._fault(line, int(begins[line]), f"it is {_shown(text)}")
        samples = np.setdiff1d(filled, blank, assume_unique=True) if blank else filled
        if not self._are_objects(len(samples)):
            for line in samples.tolist():
                if fault := _find_fault(self._line(begins[line], ends[line])):
                    raise self._fault(line, int(begins[line]), fault)
        return (begins[samples] + self.offset).astype(np.uint64)

    @property
    def line_count(self) -> int:
        """Number of lines, including blank ones."""
        return self._data.count(b"\n") + (not self._data.endswith(b"\n"))

    def first_blank_line(self) -> int:
        """Return the byte offset in the file of the first blank line. The block must have one."""
        lines = self._data.split(b"\n")
        begins = accumulate((len(line) + 1 for line in lines), initial=0)
        blank = (begin for begin, line in zip(begins, lines, strict=False) if not self._line(begin, begin + len(line)))
        return self.offset + next(blank)

    def examine(self) -> Iterator[ExaminedLine]:
        """Yield the lines that are not blank, each with its fault. Slower than :meth:`starts`."""
        begin = 0
        for line, whole in enumerate(self._data.split(b"\n")):
            text = self._line(begin, begin + len(whole))
            if text:
                fault, is_utf8 = _fault_of(text)
                yield ExaminedLine(self._lines_before + line + 1, self.offset + begin, fault, is_utf8)
            begin += len(whole) + 1

    def check_beginning(self) -> None:
        """Refuse a first line that is not an object before the rest of it, maybe gigabytes, is read."""
        text = self._line(0, len(self._data))
        if text and not text.startswith(b"{"):
            raise self._fault(0, 0, f"it is {_shown(text)}")

    def _are_objects(self, count: int) -> bool:
        """Check quickly that the lines, which all begin with { and end with }, are one valid JSON object each.

        ``decode_lines`` does not require line breaks between values. But in valid JSON a } at the end of one line and a
        { at the start of the next, without a comma between them, belong to two values. So if there are as many values
        as lines, each line is one value.
        """
        try:
            return len(_decoder.decode_lines(self._data)) == count
        except (msgspec.MsgspecError, RecursionError):
            return False

    def _line(self, begin: int, end: int) -> bytes:
        text = self._data[begin:end].strip()
        return text.removeprefix(BYTE_ORDER_MARK).lstrip() if self.offset + begin == 0 else text

    def _fault(self, line: int, begin: int, message: str) -> FormatError:
        return FormatError(
            f"line {self._lines_before + line + 1:,} is not one JSON object: {message}",
            shard=self._path,
            offset=self.offset + begin,
            hint="correct or remove that line; JSON over several lines: jq -c . converts it",
        )


def _fault_of(text: bytes) -> tuple[str | None, bool]:
    """Return the fault of a line, or None, and True if the line is UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"{error.reason} (byte {error.start} of the line)", False
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return f"it is {_shown(text)}", True
    return _find_fault(text), True


def _find_fault(text: bytes) -> str | None:
    try:
        _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        # Python's json module decides: it writes NaN and lone surrogates, and so has to read them.
        try:
            json.loads(text.decode())
        except RecursionError:
            return "it is nested too deeply"
        except ValueError:
            return re.sub(r"\(byte (\d+)\)$", r"(byte \1 of the line)", str(error))
        return None
    return None


def _shown(text: bytes) -> str:
    return repr(text[:_SHOWN_BYTES].decode("utf-8", "replace")) + ("…" if len(text) > _SHOWN_BYTES else "")
