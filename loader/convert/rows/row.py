"""A row: one sample to write, by references to the bytes of its parts."""

from __future__ import annotations

from typing import Any

import msgspec

NO_SPLIT = "-"
"""The split of rows that belong to no split part, while others do."""


class FileRef(msgspec.Struct, frozen=True, array_like=True, tag="file"):
    """A whole file.

    Attributes:
        path: Its path as the system has it, or its URL.
        size_bytes: Its size; -1 if unknown.
        changed: Its time of change or its version, so that a resumed run notices another file.
        named_by_contents: The part has the extension of its contents, whatever the row says.
    """

    path: bytes
    size_bytes: int = -1
    changed: str = ""
    named_by_contents: bool = False


class UrlRef(msgspec.Struct, frozen=True, array_like=True, tag="url"):
    """A file at a URL that data names, and no owner: it is downloaded if the user allows it.

    Attributes:
        url: The URL as the data has it.
        named_by_contents: As for :class:`FileRef`.
    """

    url: bytes
    named_by_contents: bool = False

    @property
    def size_bytes(self) -> int:
        return -1


class RangeRef(msgspec.Struct, frozen=True, array_like=True, tag="range"):
    """A range of bytes of a file.

    Attributes:
        path: Path or URL of the file.
        offset: Offset of the range in bytes.
        size_bytes: Its length.
        changed: As for :class:`FileRef`.
    """

    path: bytes
    offset: int
    size_bytes: int
    changed: str = ""


class ValueRef(msgspec.Struct, frozen=True, array_like=True, tag="value"):
    """Bytes that the source knows already, such as the text in a table.

    Attributes:
        data: The bytes.
        layout: ``"coco"`` for JSON whose coordinates are known to be those of COCO, so that they follow the picture.
    """

    data: bytes
    layout: str = ""

    @property
    def size_bytes(self) -> int:
        return len(self.data)


class CellRef(msgspec.Struct, frozen=True, array_like=True, tag="cell"):
    """A value that only the source can read.

    Attributes:
        row: Its number in the source.
        column: Name of the value in the row.
        size_bytes: Its size, or an estimate; -1 if unknown.
        file: Name of the file or table that has the row, if the source has several.
        changed: The version of that file, so that a resumed run notices another one.
        named_by_contents: The part has the extension of its contents, whatever the row says.
    """

    row: int
    column: str
    size_bytes: int = -1
    file: str = ""
    changed: str = ""
    named_by_contents: bool = False


class FaultRef(msgspec.Struct, frozen=True, array_like=True, tag="fault"):
    """A part that the source knows to be missing; its row fails.

    Attributes:
        reason: The fault.
        hint: What the user can do about it.
        code: Code of the reason in the account.
    """

    reason: str
    size_bytes: int = 0
    hint: str = ""
    code: str = "F101"


PartRef = FileRef | UrlRef | RangeRef | ValueRef | CellRef | FaultRef


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One sample to write.

    Attributes:
        key: The key that the source proposes; keys that repeat get a number.
        parts: Part name → reference to its contents.
        origin: Place of the row in the source, for reports: a path, or a line of a file.
        split: Split part, if the source has one; :data:`NO_SPLIT` for a sample that is in none.
        source: Number of the source.
    """

    key: str
    parts: dict[str, PartRef]
    origin: str = ""
    split: str = ""
    source: int = 0

    @property
    def size_bytes(self) -> int:
        """Size of the contents; -1 if it is unknown."""
        sizes = [part.size_bytes for part in self.parts.values()]
        return -1 if min(sizes, default=0) < 0 else sum(sizes)


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Row] = msgspec.msgpack.Decoder(Row)


def encode_row(row: Row) -> bytes:
    """Return a row as bytes, for :func:`decode_row`."""
    return _encoder.encode(row)


def decode_row(data: Any) -> Row:
    """Return the row that :func:`encode_row` encoded."""
    return _decoder.decode(data)
