"""The elements of an XML document as objects: attributes, texts, and lists of the elements inside."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any
from xml.etree import ElementTree as ET

from ...errors import FormatError
from ..tables.records import Record

_MAX_DEPTH = 100
_TOO_DEEP = f"elements are nested more than {_MAX_DEPTH} deep"
_ENTITY = b"<!ENTITY"  # may expand to gigabytes, or name files of this machine


class _PlainXml:
    """A file of XML that has no entities of its own."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file, self._path, self._end = file, path, b""

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        if _ENTITY in self._end + data:
            raise FormatError("this XML declares entities, which are not read", shard=self._path)
        self._end = data[-len(_ENTITY) :]
        return data


def _events(path: str) -> Iterator[tuple[str, ET.Element]]:
    depth = 0
    try:
        with open(path, "rb") as file:
            for event, element in ET.iterparse(_PlainXml(file, path), events=("start", "end")):  # noqa: S314 - no entities
                depth += 1 if event == "start" else -1
                if depth > _MAX_DEPTH:
                    raise FormatError(_TOO_DEEP, shard=path)
                yield event, element
    except ET.ParseError as error:
        raise FormatError(f"this is not valid XML: {error}", shard=path) from error


def parse_xml(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the outer tag of a small document, and its values as :func:`read_xml` yields them.

    Raises:
        FormatError: The document is damaged, nested too deeply, or declares entities.

    >>> parse_xml(b'<a b="1"><c>2</c><c d="3"/></a>')
    ('a', {'b': '1', 'c': ['2', {'d': '3'}]})
    """
    try:
        outer = ET.fromstring(_PlainXml(io.BytesIO(data), "").read())  # noqa: S314 - no entities
    except ET.ParseError as error:
        raise FormatError(f"this is not valid XML: {error}") from error
    return outer.tag, _values(outer)


def tags_in(path: str) -> list[str]:
    """Return the tags of elements with attributes or elements inside that a document has several of, outer ones first.

    Raises:
        FormatError: The document is damaged, nested too deeply, or declares entities.
    """
    counts: Counter[str] = Counter()
    for event, element in _events(path):
        if event == "start":
            counts[element.tag] += 1
        else:
            element.clear()
    return [tag for tag, count in counts.items() if count > 1]


def read_xml(path: str, tag: str) -> Iterator[Record]:
    """Yield the elements of a tag as records."""
    position = inside = 0
    for event, element in _events(path):
        inside += (element.tag == tag) * (1 if event == "start" else -1)
        if event == "end" and not inside:
            if element.tag == tag:
                yield Record(position, _values(element), size_bytes=1)
                position += 1
            element.clear()  # else the document would grow in memory


def _values(element: ET.Element, depth: int = 1) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise FormatError(_TOO_DEEP)
    values: dict[str, Any] = dict(element.attrib)
    for child in element:
        is_text = not child.attrib and not len(child)
        values.setdefault(child.tag, []).append((child.text or "").strip() if is_text else _values(child, depth + 1))
    text = (element.text or "").strip()
    return values | ({"text": text} if text else {})
