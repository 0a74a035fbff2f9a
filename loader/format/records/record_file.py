"""The interface of a file whose samples are numbered from 0: JSONL, tokens or Parquet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from ...arrays import IntArray
from ...errors import FormatError
from ...parts.large_parts import HEAD_BYTES, LargePart, limit_parts
from ...storage import FileInfo, ReadableFile, Storage
from ..index.locations import SampleLocations


class RecordFile(ABC):
    """A file of numbered samples. Opening reads a header or a footer; other pages are read at their first use.

    Args:
        storage: Folder of the file.
        name: Name of the file in it.
        info: Version of the file when it was indexed, or opened if it has no index; None if it is not known.
        size_bytes: Its size then.
        part_names: Names of the parts that samples may have.
    """

    # True if the parts are bytes for a decoder; False if :meth:`values` returns the final values.
    decodes: ClassVar[bool]

    media: Mapping[str, str] = MappingProxyType({})
    """Parts whose values are pictures, sounds or videos, with the extension of those of unknown kind."""

    def __init__(
        self, storage: Storage, name: str, info: FileInfo | None, *, size_bytes: int, part_names: tuple[str, ...]
    ) -> None:
        self.storage = storage
        self.name = name
        self.size_bytes = size_bytes
        self.part_names = part_names
        self._info = info

    @property
    def path(self) -> str:
        """Path of the file, for messages."""
        return self.storage.path(self.name)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def spans(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        """Return start and bytes of samples in the file; -1 bytes for samples that only :meth:`read` can read."""

    def expect(self, numbers: IntArray) -> None:  # noqa: B027 - the storage prefetches byte ranges
        """Announce samples that will be read soon, so that the file can decode neighbours together."""

    def open(self) -> ReadableFile:
        """Open the file, and check that it has not changed since it was indexed."""
        file = self._open()
        if file.size_bytes != self.size_bytes:
            file.close()
            raise self._changed(file.size_bytes)
        return file

    def _open(self) -> ReadableFile:
        return self.storage.open(self.name, self._info)

    def _changed(self, size_bytes: int) -> FormatError:
        return FormatError(
            f"the file has changed since it was opened: it had {self.size_bytes:,} bytes, now {size_bytes:,}",
            shard=self.path,
            hint="restart the program when the file is complete",
        )

    @abstractmethod
    def read(self, file: ReadableFile, sample: int, wanted: Callable[[str], bool] | None = None) -> dict[str, Any]:
        """Read the parts of one sample, as they are stored.

        Args:
            wanted: Returns True for the parts that are needed; a file may read others, too. None: all are.
        """

    @abstractmethod
    def values(self, parts: Mapping[str, Any], sample: int) -> dict[str, Any]:
        """Convert the stored parts of a sample to the parts of a crude sample."""

    def part_bytes(self) -> dict[str, int]:
        """Return the bytes of all samples by part."""
        return {self.part_names[0]: self.size_bytes}

    def row_groups(self) -> list[tuple[int, int]]:
        """Return the samples and the bytes of each group of samples that are decoded together; none for other files."""
        return []

    def facts(self) -> dict[str, Any]:
        """Return facts that only this format has, as plain data."""
        return {}

    @abstractmethod
    def fingerprint(self) -> bytes:
        """Return bytes that differ for other samples; they are compared when a state is restored."""


def read_record(
    file: RecordFile,
    opened: ReadableFile,
    sample: int,
    *,
    wanted: Callable[[str], bool] | None = None,
    max_json_bytes: int | None = None,
) -> dict[str, Any]:
    """Read the parts of one sample of an open file: bytes for a decoder, or final values.

    Args:
        wanted: Returns True for the parts that are needed; None: all are.
        max_json_bytes: Of larger JSON parts only the first bytes are read; None reads all parts whole.
    """
    if file.decodes and max_json_bytes is not None:
        (start,), (size_bytes,) = file.spans(np.array([sample]))
        if size_bytes > max_json_bytes:
            head = opened.read_at(int(start), HEAD_BYTES)
            return {name: LargePart(int(size_bytes), max_json_bytes, head) for name in file.part_names}
    return limit_parts(file.values(file.read(opened, sample, wanted), sample), max_json_bytes)


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
    names = [part] * len(numbers)
    return SampleLocations.of_one_part(numbers.tolist(), list(map(str, keys.tolist())), shard, spans, names)


def record_number(key: str, name: str, samples: int) -> int | None:
    """Return the sample number of a key, ``"3"`` or ``"texts.jsonl/3"``; None if there is no such sample.

    >>> record_number("3", "texts.jsonl", 4), record_number("texts.jsonl/0", "texts.jsonl", 4)
    (3, 0)
    """
    digits = key.removeprefix(f"{name}/")
    if not digits.isdecimal() or len(digits) > len(str(samples)):
        return None
    return int(digits) if str(int(digits)) == digits and int(digits) < samples else None
