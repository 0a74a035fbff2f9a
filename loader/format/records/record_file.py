"""The interface of a file whose samples are numbered from 0: JSONL, tokens or Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ...accounting.large_parts import HEAD_BYTES, LargePart, limit_parts
from ...arrays import IntArray
from ...errors import ConfigError
from ...storage import ReadableFile, Storage, open_parent
from ..documents.providers import format_of
from ..index.locations import SampleLocations


class RecordFile(Protocol):
    """A file of numbered samples. Opening reads a header or a footer; other pages are read at their first use.

    Attributes:
        decodes: True if the parts are bytes for a decoder; False if :meth:`values` returns the final values.
    """

    storage: Storage
    name: str
    size_bytes: int
    decodes: bool

    def __len__(self) -> int: ...

    @property
    def part_names(self) -> tuple[str, ...]:
        """Names of the parts that samples may have."""

    def spans(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        """Return start and bytes of samples in the file; -1 bytes for samples that only :meth:`read` can read."""

    def expect(self, numbers: IntArray) -> None:
        """Announce samples that will be read soon, so that the file can decode neighbours together."""

    def open(self) -> ReadableFile:
        """Open the file, and check that it has not changed since it was indexed."""

    def read(self, file: ReadableFile, number: int) -> dict[str, Any]:
        """Read the parts of one sample, as they are stored."""

    def values(self, parts: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Convert stored parts to the parts of a crude sample."""

    def part_bytes(self) -> dict[str, int]:
        """Return the bytes of all samples by part."""

    def facts(self) -> dict[str, Any]:
        """Return facts that only this format has, as plain data."""

    def fingerprint(self) -> bytes:
        """Return bytes that differ for other samples; they are compared when a state is restored."""


def read_record(
    file: RecordFile, opened: ReadableFile, number: int, *, max_json_bytes: int | None = None
) -> dict[str, Any]:
    """Read the parts of one sample of an open file: bytes for a decoder, or final values.

    Args:
        max_json_bytes: Of larger JSON parts only the first bytes are read; None reads all parts whole.
    """
    if file.decodes and max_json_bytes is not None:
        (start,), (size_bytes,) = file.spans(np.array([number]))
        if size_bytes > max_json_bytes:
            head = opened.read_at(int(start), HEAD_BYTES)
            return {name: LargePart(int(size_bytes), max_json_bytes, head) for name in file.part_names}
    return limit_parts(file.values(file.read(opened, number), number), max_json_bytes)


def locations_of(
    numbers: IntArray, *, keys: IntArray, shard: IntArray, spans: tuple[IntArray, IntArray], part: str
) -> SampleLocations:
    """Return the locations of samples with one part each.

    Args:
        numbers: Shape (n,): numbers of the samples in the dataset.
        keys: Shape (n,): their numbers in their files, which are their keys.
        shard: Shape (n,): numbers of their files.
        spans: Start and bytes of each; see :meth:`RecordFile.spans`.
    """
    count = len(numbers)
    start, size_bytes = spans
    return SampleLocations(
        sample=numbers.tolist(),
        key=list(map(str, keys.tolist())),
        shard=shard,
        start=start,
        size_bytes=size_bytes,
        first_part=range(count + 1),
        part_name=[part] * count,
        part_start=np.zeros(count, np.int64),
        part_stop=size_bytes,
    )


def record_number(key: str, name: str, samples: int) -> int | None:
    """Return the sample number of a key, ``"3"`` or ``"texts.jsonl/3"``; None if there is no such sample.

    >>> record_number("3", "texts.jsonl", 4), record_number("texts.jsonl/0", "texts.jsonl", 4)
    (3, 0)
    """
    number = key.removeprefix(f"{name}/")
    if not number.isdecimal() or len(number) > len(str(samples)):
        return None
    return int(number) if str(int(number)) == number and int(number) < samples else None


def open_record_file(storage: Storage, name: str) -> RecordFile:
    """Open a file of numbered samples.

    Raises:
        ImportError: The package that reads the format is not installed.
    """
    # Imported late: a run with token files needs no parser of JSON, and one with JSONL files no pyarrow.
    match format_of(name):
        case "jsonl":
            from ..jsonl.index import LineFile

            return LineFile(storage, name)
        case "binidx":
            from ..binidx.token_file import TokenFile

            return TokenFile(storage, name)
        case "parquet":
            from ..parquet.row_file import RowFile

            return RowFile(storage, name)
    raise ConfigError("expected a file whose name ends with .jsonl, .bin or .parquet", at=storage.path(name))


def open_record_path(path: str) -> RecordFile:
    """Open the file of numbered samples at a path; see :func:`open_record_file`."""
    return open_record_file(*open_parent(path))
