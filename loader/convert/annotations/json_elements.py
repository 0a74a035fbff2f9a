"""Read the elements of a JSON or JSONL file one by one: files of a gigabyte take little memory."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from ...errors import ConfigError, FormatError, SampleError
from ...storage import is_url, map_file, open_parent, raise_storage_error
from ..rows.row import FaultRef, Row, key_of_path

T = TypeVar("T")

_OBJECT = re.compile(rb"\s*\{")
_FILLED_LINE = re.compile(rb"[^\r\n]*[^\s][^\r\n]*")
LINE_ENDINGS = (".jsonl", ".ndjson")
"""Endings of files with a value on each line."""

_BYTE = re.compile(r" \(byte (\d+)\)$")
_TEXT_OR_CONSTANT = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b', re.DOTALL)


class Element(NamedTuple):
    """A value in a file, still encoded.

    Attributes:
        place: ``"file.json, element 17"``, from 0, or ``"file.jsonl, line 18"``, from 1.
        data: Its JSON.
    """

    place: str
    data: msgspec.Raw


def decode(element: Element, kind: type[T]) -> T:
    """Decode an element.

    Args:
        element: The element.
        kind: Its expected type.

    Raises:
        SampleError: It is of another type, or lacks a field.
    """
    try:
        bytes(element.data).decode()
        return msgspec.json.decode(element.data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        text = str(error)
        raise SampleError(text[:1].lower() + text[1:], source=element.place) from error


def object_of(element: Element) -> dict[str, msgspec.Raw]:
    """Return the fields of an object, still encoded.

    Raises:
        SampleError: It is no object.
    """
    return decode(element, dict[str, msgspec.Raw])


def valid_elements(elements: Iterable[Element], convert: Callable[[Element], T]) -> Iterator[T]:
    """Yield what a function makes of elements, without those for which it raises a SampleError: their rows fail."""
    for element in elements:
        try:
            converted = convert(element)
        except SampleError:
            continue
        yield converted


def read_elements(path: str, *, inside: Sequence[str] = ("data",)) -> Iterator[Element]:
    """Yield the elements of a list, of a list inside an object, or of the lines of a JSONL file.

    A line that is not valid JSON is an element, too; :func:`decode` refuses it.

    Args:
        path: The file or its URL.
        inside: Keys that the list may have in an object.

    Raises:
        ConfigError: The file has no list.
        FormatError: It is not valid JSON.
        StorageError: It cannot be read.
    """
    data = _contents(path)
    name = os.path.basename(path)
    if _has_lines(path, data):
        number = end = 0
        for line in _FILLED_LINE.finditer(data):
            number += bytes(data[end : line.start()]).count(b"\n")
            end = line.end()
            yield Element(f"{name}, line {number + 1:,}", _line(line[0]))
        return
    document = _decoded(data, path)
    if bytes(memoryview(document)[:1]) == b"{":
        fields = _fields(document)
        key = next((key for key in inside if key in fields), None)
        if key is None:
            raise ConfigError(
                f"expected a list or an object with {' or '.join(inside)}, found {', '.join([*fields][:6])}",
                at=path,
                hint="name the kind of the annotations with --from, or another file",
            )
        yield from read_list(fields, key, path=path)
        return
    for number, piece in enumerate(_pieces(document, path)):
        yield Element(f"{name}, element {number:,}", piece)


def read_object(path: str) -> dict[str, msgspec.Raw]:
    """Return the fields of the object in a file, still encoded.

    Raises:
        ConfigError: The file has no object.
        FormatError: It is not valid JSON.
        StorageError: It cannot be read.
    """
    document = _decoded(_contents(path), path)
    if bytes(memoryview(document)[:1]) != b"{":
        raise ConfigError("expected an object", at=path, hint="name the kind of the annotations with --from")
    return _fields(document)


def read_list(fields: Mapping[str, msgspec.Raw], name: str, *, path: str) -> list[Element]:
    """Return the elements of a list in an object.

    Args:
        fields: The fields of the object.
        name: Name of the list.
        path: The file.

    Raises:
        ConfigError: There is no such list.
    """
    if name not in fields:
        raise ConfigError(
            f"expected a list {name!r}, found {', '.join([*fields][:6]) or 'no fields'}",
            at=path,
            hint="name the kind of the annotations with --from",
        )
    file = os.path.basename(path)
    pieces = _pieces(fields[name], path, name)
    return [Element(f"{file}, element {number:,} of {name}", piece) for number, piece in enumerate(pieces)]


def _contents(path: str) -> memoryview:
    """Return the bytes of a file: those of a local one are mapped."""
    data: Any
    if is_url(path):
        storage, name = open_parent(path)
        with storage.open(name) as file:
            data = file.read_at(0, file.size_bytes)
    else:
        try:
            data = map_file(path) if os.path.getsize(path) else b""
        except OSError as error:
            raise_storage_error("read this file", path, error)
    view = np.frombuffer(data, np.uint8).data
    return view[3:] if bytes(view[:3]) == codecs.BOM_UTF8 else view


def _has_lines(path: str, data: memoryview) -> bool:
    if path.lower().endswith(LINE_ENDINGS):
        return True
    if not _OBJECT.match(data):
        return False
    lines = (data[line.start() : line.end()] for line in _FILLED_LINE.finditer(data))
    first = next(lines)
    if next(lines, None) is None:
        return False
    try:
        msgspec.json.decode(first, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _line(data: bytes) -> msgspec.Raw:
    try:
        return _decoded(memoryview(data), "")
    except FormatError:
        return msgspec.Raw(data)


def _decoded(data: memoryview, path: str) -> msgspec.Raw:
    """Check the grammar of a document."""
    try:
        return msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        place = _BYTE.search(str(error))
        offset = int(place[1]) if place else len(data)
        if bytes(data[offset : offset + 1]) in (b"N", b"I"):  # Python writes NaN, which JSON does not have
            return _decoded(memoryview(_TEXT_OR_CONSTANT.sub(_without_constant, data)), path)
        before = np.frombuffer(data, np.uint8)[:offset] == ord("\n")
        column = offset - (int(np.flatnonzero(before)[-1]) if before.any() else -1)
        found = "the file is empty" if not len(data) else _BYTE.sub("", str(error)).removeprefix("JSON is malformed: ")
        raise FormatError(
            f"this is not valid JSON: {found}; line {int(before.sum()) + 1:,}, column {column:,}",
            shard=path,
            offset=offset,
            hint="correct it there, or download it again",
        ) from error


def _without_constant(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else b"null"


def _fields(document: msgspec.Raw) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(document, type=dict[str, msgspec.Raw])


def _pieces(document: msgspec.Raw, path: str, name: str | None = None) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(document, type=list[msgspec.Raw])
    except msgspec.ValidationError as error:
        what = "a list" if name is None else f"a list {name!r}"
        raise ConfigError(f"expected {what}: {error}", at=path) from error


_KEYS = ("id", "question_id", "questionId", "doc_id", "uid")


def document_key(document: Mapping[str, object], number: int) -> str:
    """Return the key of a document: its ``id``, or its number in the file.

    >>> document_key({"id": "a/b.c"}, 3), document_key({}, 3)
    ('a/b_c', '000000003')
    """
    found = next((document[name] for name in _KEYS if isinstance(document.get(name), str | int)), "")
    return key_of_path(str(found)) if found != "" else f"{number:09d}"


def fault_row(element: Element, fault: SampleError | str, *, split: str = "") -> Row:
    """Return the row of an element that cannot become a sample.

    Args:
        element: The element.
        fault: What is wrong.
        split: Its split part.
    """
    reason = fault.message if isinstance(fault, SampleError) else fault
    return Row(key=key_of_path(element.place), parts={"json": FaultRef(reason)}, origin=element.place, split=split)
