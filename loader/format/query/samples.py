"""Find the samples of a dataset that a query chooses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...arrays import IntArray
from ..dataset_folder import DatasetFolder
from .condition import Condition, Values
from .dataset_values import Compute, DatasetValues, column_or_values, is_indexed
from .key_origins import KeyOrigins, foreign_keys_error, keys_of_folder
from .unknown_key import unknown_key_error

_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuery:
    """A choice of samples; each criterion that is set must hold.

    Attributes:
        split_parts: Only samples of these split parts; empty for all samples.
        keys: Only samples with these keys, ``<shard>/<key>`` or bare, and of these shards.
        origins: Of some keys the datasets in which they are meant; they are passed over in others.
        where: Condition on values: columns, ``bytes`` (size of a sample), ``shard``, ``size("jpg")``, ``has("jpg")``.
        filter: Only samples that this named filter keeps.
        excluded: Also samples that the split excludes.
        compute: Reads values of the condition that are no columns; None refuses them.
    """

    split_parts: Sequence[str] = ()
    keys: Sequence[str] | None = None
    origins: KeyOrigins = field(default_factory=dict)
    where: str | None = None
    filter: str | None = None
    excluded: bool = True
    compute: Compute | None = field(default=None, compare=False)


def find_samples(folder: DatasetFolder, query: SampleQuery, *, within: range | None = None) -> IntArray:
    """Return the numbers of the chosen samples, ascending.

    Args:
        folder: The dataset.
        query: The choice.
        within: Only some of these numbers; a value of the condition that none of them has may exist in others.

    Raises:
        ConfigError: There is no such split part, key, value or filter, or the condition is invalid.
        FormatError: A column or filter is damaged or stale.
    """
    condition = None if query.where is None else Condition(query.where)
    found = _of_parts(folder, query, range(len(folder.index)) if within is None else within)
    if query.keys is not None:
        keys = keys_of_folder(query.keys, query.origins, folder)
        if query.keys and not keys:
            raise foreign_keys_error(query.origins, at=folder.path)
        found = np.intersect1d(found, _of_keys(folder, keys), assume_unique=True)
    if not query.excluded:
        found = np.setdiff1d(found, folder.excluded_samples(), assume_unique=True)
    if condition is not None:
        columns = DatasetValues(folder, condition.columns, found, query.compute, are_all=within is None)
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


def _of_parts(folder: DatasetFolder, query: SampleQuery, within: range) -> IntArray:
    """Return the samples of the split parts that the filter of the query, and those of the parts, keep."""
    pieces = []
    for part in query.split_parts or (None,):
        if part is None:
            found = np.arange(within.start, within.stop)
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


def unknown_names(folder: DatasetFolder, query: SampleQuery) -> list[str]:
    """Return what the condition of a query names and a dataset lacks: ``column 'width'``, ``part 'jpg'``.

    Raises:
        ConfigError: The condition is invalid.
    """
    if query.where is None:
        return []
    parsed, lacking = Condition(query.where), []
    for name in parsed.columns:
        is_known = query.compute is not None and bool(column_or_values(folder, name)[1])
        is_missing = name == "bytes" and folder.records is not None and name not in folder.column_names()
        if is_missing or not (is_known or is_indexed(folder, name)):
            lacking.append(f"{'column' if query.compute is None else 'value'} {name!r}")
    parts = () if folder.records is not None else folder.index.part_names  # sizes are known of tar shards only
    return [*lacking, *(f"part {name!r}" for name in parsed.parts if name not in parts)]


class _Rows:
    """The values of some samples, as a condition asks for them."""

    def __init__(self, columns: DatasetValues, samples: IntArray) -> None:
        self._columns = columns
        self._samples = samples

    def column(self, name: str) -> Values:
        return self._columns.values(name, self._samples)

    def size(self, part: str) -> Values:
        return self._columns.size(part, self._samples)
