"""A row: one sample to write, by references to the bytes of its parts."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
import numpy as np

from ...arrays import IntArray
from ...errors import SampleError
from ..writing.seen_keys import hash_key

NO_SPLIT = "-"
"""The split of rows that belong to no split part, while others do."""


class FileRef(msgspec.Struct, frozen=True, array_like=True, tag="file"):
    """A whole file.

    Attributes:
        size_bytes: Its size; -1 if unknown.
        changed: Its time of change or its version, so that a resumed run notices another file.
        named_by_contents: The part has the extension of its contents, whatever the row says.
    """

    path: bytes
    size_bytes: int = -1
    changed: str = ""
    named_by_contents: bool = False


class UrlRef(msgspec.Struct, frozen=True, array_like=True, tag="url"):
    """A file at a URL that data names, and no owner: it is downloaded if the user allows it."""

    url: bytes
    named_by_contents: bool = False

    @property
    def size_bytes(self) -> int:
        return -1


class RangeRef(msgspec.Struct, frozen=True, array_like=True, tag="range", gc=False):
    """A range of bytes of a file.

    Attributes:
        offset: Offset of the range in bytes.
    """

    path: bytes
    offset: int
    size_bytes: int
    changed: str = ""


class ValueRef(msgspec.Struct, frozen=True, array_like=True, tag="value"):
    """Bytes that the source knows already, such as the text in a table.

    Attributes:
        layout: ``"coco"`` for JSON with COCO's coordinates, so that they follow the picture.
        is_lossy: It is JSON that has null for NaN and infinite numbers.
    """

    data: bytes
    layout: str = ""
    is_lossy: bool = False

    @property
    def size_bytes(self) -> int:
        return len(self.data)


class ElementRef(ValueRef, frozen=True, array_like=True, tag="element"):
    """The JSON of a row that becomes an element of the list of its group.

    Attributes:
        group: What the rows of the group share.
        reader: Reader of the list, if the elements are annotations of the picture; else an empty text.
    """

    group: str = ""
    reader: str = ""


class CellRef(msgspec.Struct, frozen=True, array_like=True, tag="cell"):
    """A value that only the source can read.

    Attributes:
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
    """A part that the source knows to be missing; its row fails."""

    reason: str
    size_bytes: int = 0
    hint: str = ""
    code: str = "F101"


StoredRef = FileRef | RangeRef | ValueRef | CellRef
"""A reference to bytes that are there."""


class CutRef(msgspec.Struct, frozen=True, array_like=True, tag="cut"):
    """A segment of a recording.

    Attributes:
        begin_s: Where it begins, in seconds.
        end_s: Where it ends; None for the end of the recording.
    """

    recording: StoredRef
    begin_s: float
    end_s: float | None = None

    @property
    def size_bytes(self) -> int:
        return -1


class AnnotationRef(msgspec.Struct, frozen=True, array_like=True, tag="annotation"):
    """The annotations of the sample's picture, which become objects in JSON where they are read.

    Attributes:
        part: Where they are.
        reader: Name of their reader, a module of :mod:`..readers`.
        about: Where the names of classes are; None if the annotations have them.
        about_name: Name of this file.
    """

    part: StoredRef
    reader: str
    about: StoredRef | None = None
    about_name: str = ""

    @property
    def size_bytes(self) -> int:
        return self.part.size_bytes


class CellReader:
    """An open source in a worker; this one is of a source without cells."""

    def read(self, cell: CellRef) -> bytes | UrlRef:
        """Return the contents of a cell, or the URL of its file."""
        raise SampleError(f"this source has no cells, so no value {cell.column!r}")

    def close(self) -> None:
        """Close what is open."""


PartRef = StoredRef | UrlRef | FaultRef | AnnotationRef | CutRef


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One sample to write.

    Attributes:
        key: The key that the source proposes; keys that repeat get a number.
        parts: Part name → reference to its contents.
        split: Split part, if the source has one; :data:`NO_SPLIT` for a sample that is in none.
        thing: What several samples of the source are views of, such as the clip of a frame; empty for other samples.
    """

    key: str
    parts: dict[str, PartRef]
    origin: str = ""
    split: str = ""
    source: int = 0
    thing: str = ""

    @property
    def size_bytes(self) -> int:
        """Size of the contents; -1 if it is unknown."""
        sizes = [part.size_bytes for part in self.parts.values()]
        return -1 if min(sizes, default=0) < 0 else sum(sizes)


_FILES = (FileRef, UrlRef, RangeRef)


def unique_part(name: str, taken: Collection[str]) -> str:
    """Return a part name that a sample does not have: this one, or with a number before it.

    >>> unique_part("jpg", ["txt"]), unique_part("jpg", ["jpg"]), unique_part("jpg", ["jpg", "2.jpg"])
    ('jpg', '2.jpg', '3.jpg')
    """
    count, unique = 1, name
    while unique in taken:
        count += 1
        unique = f"{count}.{name}"
    return unique


def hash_thing(row: Row, row_index: int) -> int:
    """Return a hash that rows share which are views of one thing or have the same first file; in this process only.

    Args:
        row_index: Its position among all rows, by which rows without a file differ.
    """
    if row.thing:
        return hash((row.source, row.thing))
    cell: CellRef | None = None  # a value of it, or a member of a zip
    for part in row.parts.values():
        stored = part.recording if isinstance(part, CutRef) else part
        if isinstance(stored, _FILES):
            return hash(stored)
        if cell is None and isinstance(stored, CellRef):
            cell = stored
    return hash((row.source, cell or row_index))


def rename_repeated(hashes: IntArray, key_of: Callable[[int], str]) -> dict[int, str]:
    """Return new keys for the rows whose key an earlier row has: the key, a hyphen and a number from 2."""
    # Find the rows whose hash another row has.
    order = np.argsort(hashes, kind="stable")
    repeats = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    if not len(repeats):
        return {}
    suspects = np.unique(np.concatenate((order[repeats], order[repeats + 1])))
    # Compare their keys, and number those that repeat.
    taken = np.sort(hashes)
    seen: set[str] = set()
    counts: dict[str, int] = {}
    renamed: dict[int, str] = {}
    for row in suspects.tolist():
        key = key_of(row)
        if key not in seen:
            seen.add(key)
            continue
        count = counts.get(key, 1)
        while True:
            count += 1
            candidate = f"{key}-{count}"
            hashed = hash_key(candidate)
            position = int(np.searchsorted(taken, hashed))
            is_taken = position < len(taken) and int(taken[position]) == hashed
            if candidate not in seen and not is_taken:
                break
        counts[key] = count
        seen.add(candidate)
        renamed[row] = candidate
    return renamed
