"""Read the elements of a JSON or JSONL file one by one: files of a gigabyte take little memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import msgspec

from ...errors import ConfigError, SampleError
from ..rows.key_names import key_of_path
from ..rows.row import FaultRef, Row
from ..tables.records import TOO_LONG, bounded_lines, open_text_table
from ..tables.split_names import split_of_folder
from .json_document import JsonDocument, without_constants

T = TypeVar("T")

_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
LINE_ENDINGS = (".jsonl", ".ndjson")
"""Endings of files with a value on each line."""


class Element(NamedTuple):
    """A value in a file, still encoded.

    Attributes:
        place: ``"file.json, element 17"``, from 0, or ``"file.jsonl, line 18"``, from 1.
        data: Its JSON, in which NaN and infinity are as in the file; empty if it has a fault.
        fault: Why it was not read; an empty text for most.
    """

    place: str
    data: bytes
    fault: str = ""

    @property
    def plain(self) -> bytes:
        """The JSON, with null for NaN and infinity."""
        return without_constants(self.data) if b"NaN" in self.data or b"Infinity" in self.data else self.data

    @property
    def is_lossy(self) -> bool:
        """True if the JSON has NaN or infinity."""
        return self.plain != self.data


def decode(element: Element, kind: type[T]) -> T:
    """Decode an element.

    Raises:
        SampleError: It is of another type, lacks a field, or was not read.
    """
    if element.fault:
        raise SampleError(element.fault, source=element.place)
    try:
        element.data.decode()
        return msgspec.json.decode(element.plain, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        text = str(error)
        raise SampleError(text[:1].lower() + text[1:], source=element.place) from error


def object_of(element: Element) -> dict[str, msgspec.Raw]:
    """Return the fields of an object, still encoded."""
    return decode(element, dict[str, msgspec.Raw])


def valid_elements(elements: Iterable[Element], convert: Callable[[Element], T]) -> Iterator[T]:
    """Yield what a function makes of elements, without those for which it raises a SampleError: their rows fail."""
    for element in elements:
        with suppress(SampleError):
            yield convert(element)


FIELDS = "{}"
"""Ends the name of an object whose fields are elements, each with its name as ``key``; of the document, it is alone."""


def lists_in(path: str) -> list[str]:
    """Return the names of the lists and objects in a document that have elements, for :func:`read_elements`.

    A list of objects counts, and one of texts if it is named after a split part. A list has the name ``""``, and an
    object ``"{}"``. What is inside of an object has the name of the field before it.

    Raises:
        FormatError: The document is damaged.
    """
    lists, objects, others = list[str](), list[str](), 0
    if _has_lines(path):
        return [""]
    with JsonDocument(path) as document:
        if document.peek() != b"{":
            return [""]
        for name in document.fields():
            first = document.peek()
            value = document.value().data
            is_list_of_split = first == b"[" and _first_inside(value) == b'"' and split_of_folder(name)
            if is_list_of_split or (first == b"[" and _first_inside(value) == b"{"):
                lists.append(name)
            elif first == b"{" and value.count(b":") > 1:
                objects.append(name)
            else:
                others += 1
    # An object of objects has these as elements, or else each of its lists and objects has elements of its own.
    if lists or (objects and others):
        return [*lists, *(name + FIELDS for name in objects)]
    return [FIELDS] if len(objects) + others > 1 else [name + FIELDS for name in objects]


def _first_inside(data: bytes) -> bytes:
    return data[1:].lstrip()[:1]


def _fields(path: str, inside: str) -> Iterator[Element]:
    file = os.path.basename(path)
    with JsonDocument(path) as document:
        document.peek()
        for name in document.fields():
            document.peek()
            value = document.value()
            if not inside:
                yield _keyed(f"{file}, {name}", name, value.data, value.fault)
            elif name == inside:
                for key, data in msgspec.json.decode(value.data, type=dict[str, msgspec.Raw]).items():
                    yield _keyed(f"{file}, {key}", key, bytes(data))


def _keyed(origin: str, key: str, data: bytes, fault: str = "") -> Element:
    """Return a field as an element: an object with the name as ``key``, and its own fields or a ``value``."""
    # The fields of an object come last, so that its own key counts.
    rest = data[1:] if data[:1] == b"{" else b'"value":' + data + b"}"
    comma = b"" if rest.lstrip()[:1] == b"}" else b","
    return Element(origin, b'{"key":' + msgspec.json.encode(key) + comma + rest, fault)


def read_elements(path: str, *, inside: Sequence[str] = ("data",)) -> Iterator[Element]:
    """Yield the elements of a list, of a list inside an object, or of the lines of a JSONL file.

    A line that is not valid JSON is an element, too; :func:`decode` refuses it.

    Args:
        inside: Keys that the list may have in an object; with :data:`FIELDS`, an object without any list has elements
            as its fields.
    """
    name = os.path.basename(path)
    if _has_lines(path):
        with open_text_table(path) as file:
            for position, line in bounded_lines(file):
                yield Element(f"{name}, line {position:,}", line or b"", TOO_LONG if line is None else "")
        return
    if len(inside) == 1 and inside[0].endswith(FIELDS):
        yield from _fields(path, inside[0].removesuffix(FIELDS))
        return
    # The elements of a list are read one by one.
    with JsonDocument(path) as document:
        if document.peek() == b"[":
            for position, _ in enumerate(document.items(b"]")):
                value = document.value()
                yield Element(f"{name}, element {position:,}", value.data, value.fault)
            document.end()
            return
    # An object has the elements in one of its lists.
    with open_lists(path, "expected a list or an object") as lists:
        key = next((key for key in inside if key in lists), None)
        if key is None and FIELDS in inside and not any(lists.values()):
            yield from _fields(path, "")
            return
        if key is None:
            raise ConfigError(
                f"expected a list or an object with {' or '.join(inside)}, found {', '.join([*lists][:6])}",
                at=path,
                hint="name the kind of the annotations with --from, or another file",
            )
        yield from list_in(lists, key, path=path)


@dataclass(frozen=True, slots=True)
class ElementList:
    """The elements of a list in an object of a file, by number; each is read when it is needed.

    Attributes:
        offsets: First byte of each element, shape (n,).
        sizes: Bytes of each element, shape (n,).
    """

    document: JsonDocument
    file: str
    name: str
    offsets: Sequence[int]
    sizes: Sequence[int]

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, index: int) -> Element:
        value = self.document.read(self.offsets[index], self.sizes[index])
        return Element(f"{self.file}, element {index:,} of {self.name}", value.data, value.fault)

    def __iter__(self) -> Iterator[Element]:
        return map(self.__getitem__, range(len(self)))


@contextmanager
def open_lists(path: str, expected: str = "expected an object") -> Iterator[dict[str, ElementList | None]]:
    """Open an object in a file; yield its fields: lists, and None for other values."""
    file = os.path.basename(path)
    lists: dict[str, ElementList | None] = {}
    with JsonDocument(path) as document:
        if document.peek() != b"{":
            if document.peek() not in (b"[", b'"'):
                document.value()  # is damaged
            raise ConfigError(expected, at=path, hint="name the kind of the annotations with --from")
        # Note where the elements of lists are, without holding them.
        for name in document.fields():
            lists[name] = None
            if document.peek() == b"[":
                lists[name] = ElementList(document, file, name, *document.places())
            else:
                document.value()
        document.end()
        yield lists


def list_in(lists: Mapping[str, ElementList | None], name: str, *, path: str) -> ElementList:
    """Return a list of an object."""
    elements = lists.get(name)
    if elements is None:
        shown = "another value" if name in lists else ", ".join([*lists][:6]) or "no fields"
        raise ConfigError(
            f"expected a list {name!r}, found {shown}", at=path, hint="name the kind of the annotations with --from"
        )
    return elements


def has_list(path: str) -> bool:
    """Return True for a file that is one list, whatever its name; not for lines that are a list each."""
    with open_text_table(path) as file:
        if not _LIST.match(file.peek(64)):
            return False
        lines = bounded_lines(file)
        _, first = next(lines)
        # A line with a list may be the only one; rows are objects.
        is_of_objects = re.fullmatch(rb"\[\s*\{.*\}\s*\]", first or b"[{}]", re.DOTALL)
        return not _is_value(first) or (next(lines, None) is None and is_of_objects is not None)


def _is_value(line: bytes | None) -> bool:
    try:
        msgspec.json.decode(line or b"", type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _has_lines(path: str) -> bool:
    """Return True for lines: by the name, unless it is one list, or if the first is an object and others follow."""
    if path.lower().endswith(LINE_ENDINGS):
        return not has_list(path)
    with open_text_table(path) as file:
        if not _OBJECT.match(file.peek(64)):
            return False
        # A document over several lines has no whole value on the first one.
        lines = bounded_lines(file)
        _, first = next(lines, (0, None))
        return _is_value(first) and next(lines, None) is not None


_KEYS = ("id", "question_id", "questionId", "doc_id", "uid", "key")


def document_key(document: Mapping[str, object], index: int) -> str:
    """Return the key of a document: its ``id``, or its number in the file.

    >>> document_key({"id": "a/b.c"}, 3), document_key({}, 3)
    ('a/b_c', '000000003')
    """
    identifier = next((document[name] for name in _KEYS if isinstance(document.get(name), str | int)), "")
    return key_of_path(str(identifier)) if identifier != "" else f"{index:09d}"


def fault_row(element: Element, fault: SampleError | str, *, split: str = "") -> Row:
    """Return the row of an element that cannot become a sample."""
    reason = fault.message if isinstance(fault, SampleError) else fault
    return Row(key=key_of_path(element.place), parts={"json": FaultRef(reason)}, origin=element.place, split=split)
