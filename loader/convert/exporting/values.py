"""Values of parts as bytes, as JSON, and as cells of a table."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import quote, unquote

from ...accounting.kinds import is_compressed, kind_of_name, part_extension
from ...accounting.large_parts import CHECKED_JSON_BYTES
from ...errors import SampleError

CellKind = Literal["audio", "bytes", "image", "label", "text"]

_TEXTS = ("txt", "text", "caption", "cls", "cls2", "index", "md", "html", "xml", "srt", "vtt", "csv", "yaml", "yml")
"""Extensions of parts that are written as texts, if they are UTF-8."""

_CELL_TEXTS = frozenset({*_TEXTS, "json", "jsn", "jsonl", "transcript"})


def as_json(name: str, data: bytes) -> Any:
    """Return JSON as its value, texts as texts, and other parts as ``{"base64": …}``.

    Raises:
        SampleError: JSON is too large to be parsed.

    >>> as_json("json", b"[1]"), as_json("txt", b"a cat"), as_json("jpg", b"abc")
    ([1], 'a cat', {'base64': 'YWJj'})
    """
    ending = name.rpartition(".")[2].lower()
    try:
        if ending in ("json", "jsonl") or not name:
            if len(data) > CHECKED_JSON_BYTES:
                raise SampleError(
                    f"JSON of {len(data):,} bytes is not parsed; expected at most {CHECKED_JSON_BYTES:,}",
                    part=name,
                    hint="export to tar files, or leave this part out: --drop-parts",
                )
            return json.loads(data)
        if ending in _TEXTS:
            return data.decode("utf-8")
    except (ValueError, RecursionError):
        pass  # not what its name says
    return {"base64": base64.b64encode(data).decode("ascii")}


def cell_kinds(part_names: Iterable[str], *, raw: bool = False) -> dict[str, CellKind]:
    """Return the kind of the column of each part of a table.

    Args:
        part_names: The parts.
        raw: All columns hold bytes.

    >>> cell_kinds(["jpg", "json", "cls", "json.gz"])
    {'jpg': 'image', 'json': 'text', 'cls': 'label', 'json.gz': 'bytes'}
    """
    return {name: "bytes" if raw else _cell_kind(name) for name in part_names}


def _cell_kind(name: str) -> CellKind:
    kind = kind_of_name(name)
    if is_compressed(name):
        return "bytes"
    match kind:
        case "label" | "image" | "audio":
            return kind
    return "text" if kind == "text" or part_extension(name) in _CELL_TEXTS else "bytes"


def as_cell(name: str, data: bytes, kind: CellKind, *, key: str) -> Any:
    """Return the value of a part in a table.

    Raises:
        SampleError: A text is not UTF-8, or a label is no integer.
    """
    if kind not in ("text", "label"):
        return data
    try:
        text = data.decode("utf-8")
        return text if kind == "text" else int(text)
    except ValueError as error:
        expected = "a text in UTF-8" if kind == "text" else "an integer"
        raise SampleError(
            f"expected {expected}, found {data[:40]!r}",
            key=key,
            part=name,
            source=key,
            hint="export all parts as bytes: --raw; or leave it out: --drop-parts",
        ) from error


# Control characters, ends of lines, and marks that turn the direction of text, which a terminal obeys.
_UNSAFE = re.compile("[%/\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def file_name(text: str) -> str:
    r"""Return the name of a file or folder for a key, a part or a shard.

    ``/`` becomes ``%2F``, as do control characters and the names that a file cannot have.

    >>> file_name("0001"), file_name("a/1"), file_name("50%"), file_name(".."), file_name("a\x1b[2J")
    ('0001', 'a%2F1', '50%25', '%2E.', 'a%1B[2J')
    """
    escaped = _UNSAFE.sub(lambda match: quote(match[0], safe=""), text)
    if escaped in ("", ".", ".."):
        return "%2E" + escaped[1:] if escaped else "%"
    return escaped


def key_of(name: str) -> str:
    """Return the text of a name.

    >>> [key_of(file_name(text)) for text in ("0001", "a/1", "50%", "..", "%2F", "")]
    ['0001', 'a/1', '50%', '..', '%2F', '']
    """
    if name == "%":
        return ""
    return unquote(name)


def split_file_name(name: str) -> tuple[str, str]:
    """Return the key and the part of a file ``<key>.<part>``; the part is empty if there is none.

    As in shards, the key ends at the first dot after its last slash.

    >>> split_file_name("a%2F1.seg.png"), split_file_name("0001")
    (('a/1', 'seg.png'), ('0001', ''))
    """
    text = key_of(name)
    folder, slash, last = text.rpartition("/")
    key, _, part = last.partition(".")
    return f"{folder}{slash}{key}", part
