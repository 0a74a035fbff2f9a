"""The files of filters, and the samples that a filter keeps: numbers of samples ↔ rows of the filter."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import ConfigError, FormatError, plural
from ...storage import Storage, lists_files, map_file, read_document
from ..documents.messages import short_repr
from ..nv_meta import FOLDER, INFO_JSON, is_filter_name

NUMBER = np.dtype("<u8")  # type of a sample's number in an ``.idx`` file

_FORMAT_VERSION = 1
_IN_FOLDER = re.compile(rf"{re.escape(FOLDER)}/filter_(.+)\.json")


def filter_names(storage: Storage) -> list[str]:
    """List the filters of a prepared dataset; none on a web server, which lists no files."""
    if not lists_files(storage) or not storage.exists(INFO_JSON):
        return []
    matches = (_IN_FOLDER.fullmatch(file.name) for file in storage.list(FOLDER))
    return sorted(match[1] for match in matches if match and is_filter_name(match[1]))


@dataclass(frozen=True, slots=True)
class FilterFiles:
    """The files of one filter."""

    storage: Storage  # the dataset, or the folder of the single file
    name: str  # name of the filter
    prefix: str  # names of both files without their extensions

    @classmethod
    def of_dataset(cls, storage: Storage, name: str) -> FilterFiles:
        return cls(storage, name, f"{FOLDER}/filter_{name}")

    @classmethod
    def of_file(cls, storage: Storage, file: str, name: str) -> FilterFiles:
        return cls(storage, name, f"{file}.{name}")

    @property
    def path(self) -> str:
        """Path of the ``.idx`` file, for messages."""
        return self.storage.path(f"{self.prefix}.idx")

    def exist(self) -> bool:
        return self.storage.exists(f"{self.prefix}.json")

    def write(self, counts: Mapping[str, int], numbers: Iterator[npt.NDArray[Any]]) -> None:
        """Write both files; the ``.json`` file comes last and makes the filter valid.

        Args:
            counts: Kept samples of each shard, in the order of the shards.
            numbers: The kept samples, in pieces.
        """
        with self.storage.create(f"{self.prefix}.idx") as file:
            for some in numbers:
                file.write(np.ascontiguousarray(some, NUMBER).data)
        record = {"format_version": _FORMAT_VERSION, "shard_counts": dict(counts)}
        self.storage.write(f"{self.prefix}.json", json.dumps(record, indent=2).encode("ascii"))

    def read_counts(self) -> dict[str, int]:
        """Read the number of kept samples of each shard."""
        file = f"{self.prefix}.json"
        try:
            record = json.loads(read_document(self.storage, file))
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"it is not JSON: {error}", ".json") from error
        if not isinstance(record, dict):
            raise self.damaged("it is not a mapping", ".json")
        version = record.get("format_version", _FORMAT_VERSION)
        if version != _FORMAT_VERSION:
            raise self.damaged(f"expected format_version {_FORMAT_VERSION}, found {version!r}", ".json")
        counts = record.get("shard_counts")
        if not isinstance(counts, dict) or not all(type(count) is int and count >= 0 for count in counts.values()):
            raise self.damaged("expected 'shard_counts', the number of kept samples of each shard", ".json")
        return counts

    def damaged(self, fault: str, extension: str = ".idx") -> FormatError:
        return FormatError(
            f"the filter {self.name!r} is damaged or stale: {fault}",
            shard=self.storage.path(f"{self.prefix}{extension}"),
            hint="build the filter again with build_filter_index()",
        )


_NUMBERS_AT_ONCE = 1 << 20


class FilteredShard(NamedTuple):
    """A shard whose samples a filter numbers.

    Attributes:
        name: Name of the shard.
        samples: Number of its samples.
        first_sample: Number of its first sample in the index.
    """

    name: str
    samples: int
    first_sample: int


def open_filter(files: FilterFiles, shards: Sequence[FilteredShard], *, available: Sequence[str] = ()) -> FilterRows:
    """Open a filter in time that does not depend on the number of samples.

    The counts, and each shard's first and last row, are compared with the shards. ``check`` compares every row.

    Args:
        files: The files of the filter.
        shards: The shards of the dataset in the order of ``.info.json``.
        available: Names of the dataset's filters, for the message about a missing one.

    Raises:
        ConfigError: There is no such filter.
        FormatError: A file is damaged, or the filter is of other shards.
    """
    if not files.exist():
        known = f"; there are: {', '.join(available)}" if available else ""
        raise ConfigError(
            f"there is no filter {files.name!r}{known}",
            at=files.path,
            hint="check its name, or build it with build_filter_index()",
        )
    return FilterRows(files, shards)


def open_file_filter(storage: Storage, file: str, name: str, samples: int) -> FilterRows:
    """Open a filter of a single file.

    Args:
        storage: The folder of the file.
        file: Name of the file in it.
        name: Name of the filter.
        samples: Number of samples in the file.

    Raises:
        ConfigError: There is no such filter.
        FormatError: The filter is damaged, or of another file.
    """
    return open_filter(FilterFiles.of_file(storage, file, name), [FilteredShard(file, samples, 0)])


class FilterRows:
    """The samples that a filter keeps. Row i is the i-th kept sample, in the order of ``.info.json``.

    Args:
        files: The files of the filter.
        shards: The shards of the dataset in the order of ``.info.json``.

    Raises:
        FormatError: A file is damaged, or the filter is of other shards.
    """

    def __init__(self, files: FilterFiles, shards: Sequence[FilteredShard]) -> None:
        self._files = files
        counts = files.read_counts()
        self._check_names(counts, shards)
        sizes = np.array([shard.samples for shard in shards], np.int64)
        kept = np.array([counts[shard.name] for shard in shards], np.int64)
        self._stops = np.cumsum(sizes)
        self._starts = self._stops - sizes  # first number of each shard, as the filter counts
        self._ends = np.cumsum(kept)  # row behind the last one of each shard
        shift = np.array([shard.first_sample for shard in shards], np.int64) - self._starts
        self._shift = shift if shift.any() else None  # the index may have the shards in another order
        self._place = {shard.name: position for position, shard in enumerate(shards)}
        self._kept = self._map()
        self._check_ends(shards, kept)

    def _check_names(self, counts: dict[str, int], shards: Sequence[FilteredShard]) -> None:
        names = {shard.name for shard in shards}
        for some, fault in (
            (counts.keys() - names, "has shards that the dataset does not have"),
            (names - counts.keys(), "lacks shards of the dataset"),
        ):
            if some:
                shown = ", ".join(map(repr, sorted(some)[:3])) + (", …" if len(some) > 3 else "")
                raise self._files.damaged(f"it {fault}: {shown}")
        for shard in shards:
            if counts[shard.name] > shard.samples:
                raise self._files.damaged(
                    f"expected at most {plural(shard.samples, 'sample')} of shard {shard.name!r}, found "
                    f"{short_repr(counts[shard.name])}",
                    ".json",
                )

    def _map(self) -> npt.NDArray[Any]:
        storage, file = self._files.storage, f"{self._files.prefix}.idx"
        if not storage.exists(file):
            raise self._files.damaged("this file is missing")
        expected, size_bytes = len(self) * NUMBER.itemsize, storage.stat(file).size_bytes
        if size_bytes != expected:
            raise self._files.damaged(f"expected {expected:,} bytes, as the .json file counts, found {size_bytes:,}")
        return np.frombuffer(map_file(storage.local_path(file)), NUMBER) if len(self) else np.empty(0, NUMBER)

    def _check_ends(self, shards: Sequence[FilteredShard], kept: IntArray) -> None:
        """Check that the first and the last row of each shard are samples of it."""
        some = np.flatnonzero(kept)
        first = self._kept[(self._ends - kept)[some]].astype(np.int64)
        last = self._kept[self._ends[some] - 1].astype(np.int64)
        wrong = (first < self._starts[some]) | (last >= self._stops[some]) | (last < first)
        if wrong.any():
            shard = shards[int(some[np.argmax(wrong)])]
            raise self._files.damaged(f"its rows of shard {shard.name!r} are not among the shard's samples")

    def intersect(self, other: FilterRows) -> FilterRows:
        """Return the samples that another filter of the same dataset keeps, too; they are in memory."""
        both = copy(self)
        both.__dict__.pop("checksum", None)
        both._kept = np.intersect1d(self._kept, other._kept, assume_unique=True)  # noqa: SLF001 - of the same class
        both._ends = both._kept.searchsorted(both._stops.astype(NUMBER)).astype(np.int64)  # noqa: SLF001
        return both

    def __len__(self) -> int:
        """Return the number of kept samples."""
        return int(self._ends[-1]) if len(self._ends) else 0

    @property
    def last(self) -> int:
        """Highest number in the index that a kept sample can have; -1 without samples."""
        return int(self._stops[-1]) - 1 if len(self._stops) else -1

    @property
    def path(self) -> str:
        """Path of the ``.idx`` file, for messages."""
        return self._files.path

    @property
    def name(self) -> str:
        return self._files.name

    def rows_of(self, shard: str) -> range:
        position = self._place[shard]
        return range(int(self._ends[position - 1]) if position else 0, int(self._ends[position]))

    def numbers(self, rows: IntArray) -> IntArray:
        """Return the numbers in the index of the samples in some rows, shape (n,).

        Raises:
            FormatError: A row has no sample of the dataset.
        """
        kept: IntArray = self._kept[rows].astype(np.int64)
        if len(kept) and not 0 <= kept.min() <= kept.max() < self._stops[-1]:
            raise self._files.damaged("it has samples that the dataset does not have")
        return kept if self._shift is None else kept + self._shift[self._stops.searchsorted(kept, side="right")]

    def find(self, numbers: IntArray) -> IntArray:
        """Return the rows of the kept ones among some samples, by their numbers in the index; ascending."""
        wanted = np.sort(self._own_numbers(numbers))
        kept = wanted[self._is_kept(wanted)].astype(NUMBER)
        return self._kept.searchsorted(kept)

    def keeps(self, numbers: IntArray) -> npt.NDArray[np.bool_]:
        """Return a mask of the kept ones among some samples, by their numbers in the index."""
        return self._is_kept(self._own_numbers(numbers))

    def _is_kept(self, indexes: IntArray) -> npt.NDArray[np.bool_]:
        if not len(self):
            return np.zeros(len(indexes), np.bool_)
        wanted = indexes.astype(NUMBER)
        row = np.minimum(self._kept.searchsorted(wanted), len(self) - 1)
        kept: npt.NDArray[np.bool_] = self._kept[row] == wanted
        return kept

    def _own_numbers(self, numbers: IntArray) -> IntArray:
        """Convert numbers in the index to those that the filter has."""
        if self._shift is None:
            return numbers
        starts = self._starts + self._shift
        some = np.flatnonzero(self._stops > self._starts)  # an empty shard starts where another one does
        order = some[np.argsort(starts[some])]
        position = order[np.searchsorted(starts[order], numbers, side="right") - 1]
        return numbers - self._shift[position]

    @cached_property
    def checksum(self) -> int:
        """Checksum of all rows."""
        checksum = 0
        for block in self._blocks():
            checksum = zlib.crc32(block.data, checksum)
        return checksum

    def check(self) -> None:
        """Check every row.

        Raises:
            FormatError: The rows do not ascend strictly.
        """
        last = -1
        for block in self._blocks():
            numbers = block.astype(np.int64)
            if (np.diff(numbers, prepend=last) <= 0).any():
                raise self._files.damaged("its numbers do not ascend")
            last = int(numbers[-1])

    def _blocks(self) -> Iterator[npt.NDArray[Any]]:
        for start in range(0, len(self), _NUMBERS_AT_ONCE):
            yield self._kept[start : start + _NUMBERS_AT_ONCE]
