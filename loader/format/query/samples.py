"""Find the samples of a dataset that a query chooses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ..columns.column import Column, open_column
from ..dataset_folder import DatasetFolder
from ..documents.messages import did_you_mean
from .condition import Condition, Values
from .key_origins import KeyOrigins, foreign_keys_error, keys_of_folder
from .unknown_key import unknown_key_error

_ROWS_AT_ONCE = 1 << 20
INDEX_COLUMNS = ("bytes", "shard")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuery:
    """A choice of samples; each criterion that is set must hold.

    Attributes:
        split_parts: Only samples of these split parts; empty for all samples.
        keys: Only samples with these keys, ``<shard>/<key>`` or bare, and of these shards.
        origins: Of some keys the datasets in which they are meant; they are passed over in others.
        where: Condition on columns, and on ``bytes`` (size of a sample), ``shard``, ``size("jpg")`` and ``has("jpg")``.
        filter: Only samples that this named filter keeps.
        excluded: Also samples that the split excludes.
    """

    split_parts: Sequence[str] = ()
    keys: Sequence[str] | None = None
    origins: KeyOrigins = field(default_factory=dict)
    where: str | None = None
    filter: str | None = None
    excluded: bool = True


def find_samples(folder: DatasetFolder, query: SampleQuery) -> IntArray:
    """Return the numbers of the chosen samples, ascending.

    Args:
        folder: The dataset.
        query: The choice.

    Raises:
        ConfigError: There is no such split part, key, column or filter, or the condition is invalid.
        FormatError: A column or filter is damaged or stale.
    """
    condition = None if query.where is None else Condition(query.where)
    found = _of_parts(folder, query)
    if query.keys is not None:
        keys = keys_of_folder(query.keys, query.origins, folder)
        if query.keys and not keys:
            raise foreign_keys_error(query.origins, at=folder.path)
        found = np.intersect1d(found, _of_keys(folder, keys), assume_unique=True)
    if not query.excluded:
        found = np.setdiff1d(found, folder.excluded_samples(), assume_unique=True)
    if condition is not None:
        columns = ColumnValues(folder, condition.columns)
        pieces = (found[start : start + _ROWS_AT_ONCE] for start in range(0, len(found), _ROWS_AT_ONCE))
        kept = [some[condition.holds(_Rows(columns, some), len(some))] for some in pieces]
        found = np.concatenate([np.empty(0, np.int64), *kept])
    return found


def read_keys(lines: Iterable[str]) -> Iterator[str]:
    r"""Yield the keys of a text file, one a line; empty lines and lines that begin with ``#`` are skipped.

    >>> list(read_keys(["a.tar/1\n", "\n", "# broken:\n", "a.tar/7\n"]))
    ['a.tar/1', 'a.tar/7']
    """
    for line in lines:
        key = line.rstrip("\r\n")
        if key.strip() and not key.startswith("#"):
            yield key


def _of_parts(folder: DatasetFolder, query: SampleQuery) -> IntArray:
    """Return the samples of the split parts that the filter of the query, and those of the parts, keep."""
    pieces = []
    for part in query.split_parts or (None,):
        if part is None:
            found = np.arange(len(folder.index))
            rows = None if query.filter is None else folder.open_filter(query.filter)
        else:
            found = _numbers(folder.samples_of_part(part, excluded_shards=True))
            rows = folder.filter_of_part(part, query.filter)
        if rows is not None:
            found = np.intersect1d(found, rows.numbers(np.arange(len(rows))), assume_unique=True)
        pieces.append(found)
    return pieces[0] if len(pieces) == 1 else np.unique(np.concatenate(pieces))


def _numbers(ranges: Iterable[range]) -> IntArray:
    return np.concatenate([np.empty(0, np.int64), *(np.arange(some.start, some.stop) for some in ranges)])


def samples_of_keys(folder: DatasetFolder, keys: Iterable[str]) -> dict[str, Sequence[int]]:
    """Return the numbers of the samples that each key names; none for an unknown key.

    Args:
        folder: The dataset.
        keys: ``<shard>/<key>``, bare keys, and shards.
    """
    shards = {shard.name: shard for shard in folder.index.shards}
    return {
        key: folder.index.find(key) or (folder.index.samples_of(shards[key]) if key in shards else ())
        for key in dict.fromkeys(keys)
    }


def _of_keys(folder: DatasetFolder, keys: Iterable[str]) -> IntArray:
    found = samples_of_keys(folder, keys)
    unknown = [key for key, samples in found.items() if not samples]
    if unknown:
        raise unknown_key_error([folder], unknown, at=folder.path)
    return np.unique(np.array([number for samples in found.values() for number in samples], np.int64))


def unknown_names(folder: DatasetFolder, condition: str) -> list[str]:
    """Return what a condition names and a dataset lacks: ``column 'width'``, ``part 'jpg'``.

    Raises:
        ConfigError: The condition is invalid.
    """
    parsed = Condition(condition)
    known, parts = {*folder.column_names(), *INDEX_COLUMNS}, folder.index.part_names
    if folder.records is not None:  # sizes are known of tar shards only
        known, parts = {*folder.column_names(), "shard"}, ()
    return [
        *(f"column {name!r}" for name in parsed.columns if name not in known),
        *(f"part {name!r}" for name in parsed.parts if name not in parts),
    ]


class ColumnValues:
    """The columns of a condition."""

    def __init__(self, folder: DatasetFolder, names: Iterable[str]) -> None:
        self.folder = folder
        self._columns: dict[str, Column] = {}
        known = folder.column_names()
        for name in names:
            if name in INDEX_COLUMNS and name not in known:
                continue
            if name not in known:
                every = [*known, *INDEX_COLUMNS]
                raise ConfigError(
                    f"there is no column {name!r}{did_you_mean(name, every)}",
                    at=folder.path,
                    hint=f"write it: energon stats {folder.path} --write {name}",
                )
            self._columns[name] = open_column(folder.storage, folder.index, name)

    def values(self, name: str, samples: IntArray) -> Values:
        column = self._columns.get(name)
        if column is not None:
            return Values(column.values[samples], column.is_known(samples), column.record.categories or None)
        if name == "shard":
            firsts = np.array([shard.first_sample for shard in self.folder.index.shards])
            shard = np.searchsorted(firsts, samples, side="right") - 1
            return Values(shard, np.ones(len(samples), np.bool_), tuple(one.name for one in self.folder.index.shards))
        return self._of_parts(samples, None)

    def _of_parts(self, samples: IntArray, part: str | None) -> Values:
        """Return the sizes of one part, or of all."""
        if self.folder.records is not None:
            raise ConfigError(
                "the sizes of parts are known of tar shards only", at=self.folder.path, hint="use a column instead"
            )
        index = self.folder.tar_index
        ends = index.part_ends[samples].astype(np.int64)
        starts = np.where(samples > 0, index.part_ends[np.maximum(samples - 1, 0)].astype(np.int64), 0)
        counts = ends - starts
        owners = np.repeat(np.arange(len(samples)), counts)
        rows = np.arange(len(owners)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        if part is not None:
            if part not in index.part_names:
                raise ConfigError(
                    f"there is no part {part!r}{did_you_mean(part, index.part_names[:20])}",
                    at=self.folder.path,
                    hint="name a part as energon info lists them",
                )
            is_part = index.part_name[rows] == index.part_names.index(part)
            owners, rows = owners[is_part], rows[is_part]
        sizes = np.bincount(owners, index.part_size[rows], minlength=len(samples)).astype(np.int64)
        return Values(sizes, np.bincount(owners, minlength=len(samples)) > 0)

    def size(self, part: str, samples: IntArray) -> Values:
        return self._of_parts(samples, part)


class _Rows:
    """The values of some samples, as a condition asks for them."""

    def __init__(self, columns: ColumnValues, samples: IntArray) -> None:
        self._columns = columns
        self._samples = samples

    def column(self, name: str) -> Values:
        return self._columns.values(name, self._samples)

    def size(self, part: str) -> Values:
        return self._columns.size(part, self._samples)
