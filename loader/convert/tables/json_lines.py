"""Records of JSONL files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from .records import Record

_MAX_LINE = 64 << 20  # bytes; the values of a line take up to thirty times its size in memory
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HINT = "correct or remove that line; JSON over several lines: jq -c . converts it"


def read_json_lines(file: BinaryIO) -> Iterator[Record]:
    """Yield the records of a JSONL file: an object in each line that is not blank.

    A line of more than 64 MiB is a record with a fault.

    Args:
        file: The file, at its start.
    """
    number = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        if len(line) == _MAX_LINE and not line.endswith(b"\n"):
            while (rest := file.readline(_MAX_LINE)) and not rest.endswith(b"\n"):
                pass
            yield Record(number, {}, f"it is longer than {_MAX_LINE:,} bytes", "divide it, or remove it")
            continue
        text = line.strip() if number > 1 else line.removeprefix(_BYTE_ORDER_MARK).strip()
        if text:
            yield parse_record(number, text)


def parse_record(number: int, text: bytes | msgspec.Raw) -> Record:
    """Return a record of JSON, which is invalid if the text is not an object.

    Args:
        number: Its line in the file, or its place in a list.
        text: The JSON.
    """
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        try:
            value = json.loads(bytes(text))  # reads NaN, which Python writes
        except (ValueError, RecursionError):
            return Record(number, {}, f"it is not JSON: {error}", _HINT)
    if not isinstance(value, dict):
        return Record(number, {}, f"expected an object of JSON, found {type(value).__name__}", _HINT)
    return Record(number, value)
