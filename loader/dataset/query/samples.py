"""Find the samples of a dataset that a query chooses, and read keys from files."""

from __future__ import annotations

import csv
import json
import os
import sys
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from ...arrays import IntArray, union
from ...errors import ConfigError, StorageError, required_package
from ...format.columns.column import ComparedValues
from ...format.documents.messages import nearest_names
from ..dataset import Dataset
from ..records import SingleFile
from ..selection import Selection
from ..split_parts import excluded_samples
from .condition import Condition
from .dataset_values import Compute, DatasetValues, column_or_values, is_indexed

_COLUMNS = ("key", "__key__", "sample", "name")


def keys_and_origins(path: str, *, column: str | None = None) -> tuple[list[str], dict[str, list[KeyOrigin]]]:
    """Return the keys of a file; a quarantine file also names the dataset of each key.

    Args:
        path: As for :func:`keys_of_file`.
        column: The column of a table; of a quarantine file, its keys alone are used, in any dataset.
    """
    keys = keys_of_file(path, column=column)
    if column is not None or not path.lower().endswith(".jsonl"):
        return keys, {}
    origins: dict[str, list[KeyOrigin]] = {}
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for row in map(json.loads, filter(str.strip, file)):
            origin = origin_of_row(row)
            if origin is not None:
                origins.setdefault(row["key"], []).append(origin)
    return keys, origins


def keys_of_file(path: str, *, column: str | None = None) -> list[str]:
    """Return the keys of a file.

    Args:
        path: A text file with one key a line, or ``-`` for standard input; a ``.csv``, ``.tsv``, ``.jsonl`` or
            ``.parquet`` file; or a ``.json`` file that ``energon lint --json`` printed.
        column: The column of a table; None for the one named key, __key__, sample or name, or the only one.
    """
    try:
        if path == "-":
            return list(read_keys(sys.stdin))
        # The ending shows the format; files with other endings are texts.
        ending = path.rpartition(".")[2].lower()
        if ending == "parquet":
            return _of_parquet(path, column)
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            if ending in ("csv", "tsv"):
                rows = csv.reader(file, delimiter="," if ending == "csv" else "\t")
                header = next(rows, [])
                position = header.index(_column(header, column, path))
                return [row[position] for row in rows if len(row) > position and row[position]]
            if ending == "json":
                return list(_of_report(json.load(file), path))
            if ending == "jsonl":
                return list(dict.fromkeys(_of_rows(file, column, path)))
            return list(read_keys(file))
    except OSError as error:
        raise StorageError(
            f"cannot read this file: {error.strerror}", path=path, hint="name a file of keys, one a line"
        ) from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise ConfigError(f"cannot read keys from this file: {error}", at=path, hint="check its format") from error


def _of_rows(lines: Iterable[str], column: str | None, path: str) -> Iterator[str]:
    for line in lines:
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ConfigError("expected an object on each line", at=path, hint="check the format of the file")
            yield str(row[_column(list(row), column, path)])


def _of_parquet(path: str, column: str | None) -> list[str]:
    with required_package(
        "reading Parquet files needs pyarrow, which is not installed",
        at=path,
        hint="run: pip install 'energon-toolkit[tables]'",
    ):
        from pyarrow import parquet
    with parquet.ParquetFile(path) as table:
        name = _column(table.schema_arrow.names, column, path)
        return [str(key) for key in table.read(columns=[name]).column(name).to_pylist() if key is not None]


def _column(names: list[str], wanted: str | None, path: str) -> str:
    if wanted is None:
        candidates = [name for name in _COLUMNS if name in names] or (names if len(names) == 1 else [])
    else:
        candidates = [wanted] if wanted in names else []
    if not candidates:
        what = f"a column {wanted!r}" if wanted is not None else f"a column named {', '.join(_COLUMNS[:-1])} or name"
        raise ConfigError(
            f"expected {what}, found: {', '.join(names) or 'none'}", at=path, hint="name the column of the keys"
        )
    return candidates[0]


def _of_report(report: object, path: str) -> Iterator[str]:
    findings = report.get("findings") if isinstance(report, dict) else None
    if not isinstance(findings, list) or not all(isinstance(finding, dict) for finding in findings):
        raise ConfigError(
            "expected a report with 'findings'", at=path, hint="make it: energon lint PATH --json > report.json"
        )
    keys = (f"{row['shard']}/{row['key']}" for row in findings if row.get("shard") and row.get("key"))
    yield from dict.fromkeys(keys)


_MAX_UNKNOWN = 5
_MAX_KEYS = 200_000  # that are listed to find a near one
_MAX_NEAR = 20  # of equal similarity, the one that has the key in whole is meant: 00102 for 102
_MAX_COMPARED = 400  # comparing two names takes some 20 µs


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


def find_samples(folder: Dataset, query: SampleQuery, *, within: range | None = None) -> IntArray:
    """Return the numbers of the chosen samples, ascending.

    Args:
        within: Only some of these numbers; a value of the condition that none of them has may exist in others.
    """
    condition = None if query.where is None else Condition(query.where)
    # Apply what the index knows first; the condition may have to read samples.
    samples = _of_parts(folder, query, range(len(folder.index)) if within is None else within)
    if query.keys is not None:
        keys = keys_of_folder(query.keys, query.origins, folder)
        if query.keys and not keys:
            raise foreign_keys_error(query.origins, at=folder.path)
        samples = np.intersect1d(samples, _of_keys(folder, keys), assume_unique=True)
    if not query.excluded:
        samples = np.setdiff1d(samples, excluded_samples(folder), assume_unique=True)
    if condition is not None:
        columns = DatasetValues(folder, condition.columns, samples, query.compute, are_all=within is None)
        # Evaluate the condition for a block of samples at a time.
        count = columns.rows_at_once
        pieces = (samples[start : start + count] for start in range(0, len(samples), count))
        kept = [some[condition.holds(cache(partial(_look_up, columns, some)), len(some))] for some in pieces]
        samples = np.concatenate([np.empty(0, np.int64), *kept])
    return samples


def read_keys(lines: Iterable[str]) -> Iterator[str]:
    r"""Yield the keys of a text file, one a line; empty lines and lines that begin with ``#`` are skipped.

    >>> list(read_keys(["a.tar/1\n", "\n", "# broken:\n", "a.tar/7\n"]))
    ['a.tar/1', 'a.tar/7']
    """
    for line in lines:
        key = line.rstrip("\r\n")
        if key.strip() and not key.startswith("#"):
            yield key


def _of_parts(folder: Dataset, query: SampleQuery, within: range) -> IntArray:
    if not query.split_parts and query.filter is None:
        return np.arange(within.start, within.stop)
    return union(Selection(folder, part, query.filter).numbers() for part in query.split_parts or (None,))


def samples_of_keys(folder: Dataset, keys: Iterable[str]) -> dict[str, Sequence[int]]:
    """Return the numbers of the samples that each key names; none for an unknown key."""
    shards = {shard.name: shard for shard in folder.index.shards}
    return {
        key: folder.index.find(key) or (folder.index.samples_of(shards[key]) if key in shards else ())
        for key in dict.fromkeys(keys)
    }


def _of_keys(folder: Dataset, keys: Iterable[str]) -> IntArray:
    samples_by_key = samples_of_keys(folder, keys)
    unknown = [key for key, samples in samples_by_key.items() if not samples]
    if unknown:
        raise unknown_key_error([folder], unknown, at=folder.path)
    return np.unique(np.array([sample for samples in samples_by_key.values() for sample in samples], np.int64))


def unknown_names(folder: Dataset, query: SampleQuery) -> list[str]:
    """Return what the condition of a query names and a dataset lacks: ``column 'width'``, ``part 'jpg'``."""
    if query.where is None:
        return []
    parsed, lacking, names = Condition(query.where), [], folder.index.names
    for name in parsed.columns:
        is_known = query.compute is not None and bool(column_or_values(folder, name)[1])
        # The index has `bytes` for tar shards only.
        is_missing = name == "bytes" and not names.has_sizes and name not in folder.documents.column_names()
        if is_missing or not (is_known or is_indexed(folder, name)):
            lacking.append(f"{'column' if query.compute is None else 'value'} {name!r}")
    parts = names.parts if names.has_sizes else ()
    return [*lacking, *(f"part {name!r}" for name in parsed.parts if name not in parts)]


def _look_up(columns: DatasetValues, samples: IntArray, name: str, is_size: bool) -> ComparedValues:
    return columns.size(name, samples) if is_size else columns.values(name, samples, vectors=True)


def unknown_key_error(folders: Sequence[Dataset], keys: Sequence[str], *, at: str) -> ConfigError:
    """Return the error about keys that some datasets do not have; a single one gets a near key of its dataset."""
    folder = folders[0]
    hint = "keys are written as energon preview shows them: '<shard>/<key>', or the key alone"
    if len(folders) == 1 and isinstance(folder, SingleFile):
        hint = f"keys are the numbers from 0 to {len(folder.index) - 1}"
    shown = ", ".join(map(repr, keys[:_MAX_UNKNOWN]))
    more = f" and {len(keys) - _MAX_UNKNOWN:,} more" if len(keys) > _MAX_UNKNOWN else ""
    near = nearest_key(folder, keys[0]) if len(keys) == len(folders) == 1 else None
    return ConfigError(
        f"there is no sample {shown}{more}" + (f"; did you mean {near!r}?" if near else ""), at=at, hint=hint
    )


def nearest_key(folder: Dataset, key: str) -> str | None:
    """Return the most similar key of the shard that a key names, or of the first shards."""
    index = folder.index
    if isinstance(folder, SingleFile):
        return None
    # Divide the key into a shard and a bare key.
    shards = {shard.name: shard for shard in index.shards}
    name = next((name for name in shards if key.startswith(f"{name}/")), None)
    bare = key if name is None else key.removeprefix(f"{name}/")
    # The shard is unknown, so a near one is meant.
    if name is None and "/" in key:
        before, _, bare = key.rpartition("/")
        name = _nearest(before, shards)
        if name is None:
            return None
        if index.find(f"{name}/{bare}"):
            return f"{name}/{bare}"
    # Compare the bare key with the keys of the shard, or of all shards.
    some = shards.values() if name is None else [shards[name]]
    near = _nearest(bare, (index.key(sample) for shard in some for sample in index.samples_of(shard)))
    return near if name is None or near is None else f"{name}/{near}"


def _nearest(name: str, known: Iterable[str]) -> str | None:
    names = sorted(islice(known, _MAX_KEYS))
    # Near names mostly begin alike, so they are neighbours in sorted order.
    if len(names) > _MAX_COMPARED:
        position = bisect(names, name)
        names = names[max(0, position - _MAX_COMPARED // 2) : position + _MAX_COMPARED // 2]
    near = nearest_names(name, names, limit=_MAX_NEAR)
    return next((similar for similar in near if similar.endswith(name)), near[0] if near else None)


# The datasets in which the keys of a quarantine file are meant: other datasets may have samples of the same keys.


_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class KeyOrigin:
    """The dataset of a key.

    Attributes:
        uuid: Name of its index; None if it has none, as single files and joins.
    """

    path: str
    uuid: str | None

    def is_of(self, folder: Dataset) -> bool:
        """Report whether a dataset is this one: at this path, or moved with its index. A join is any of its members."""
        # A dataset that was moved has the same index.
        if self.uuid is not None and folder.index.uuid == self.uuid:
            return True
        # A file that is gone may have been moved, and has no uuid that would show it.
        if self.uuid is None and not os.path.exists(self.path) and "://" not in self.path:
            return True
        return _absolute(folder.path) == _absolute(self.path)


KeyOrigins: TypeAlias = Mapping[str, Sequence[KeyOrigin]]


def origin_of_row(row: Mapping[str, Any]) -> KeyOrigin | None:
    """Return the dataset that a row of JSON lines names; None if it is not one of a quarantine file."""
    path, key, uuid = row.get("dataset"), row.get("key"), row.get("uuid", 0)
    if not isinstance(path, str) or not isinstance(key, str) or "number" not in row:
        return None
    return KeyOrigin(path, uuid) if uuid is None or isinstance(uuid, str) else None


def keys_of_folder(keys: Iterable[str], origins: KeyOrigins, folder: Dataset) -> tuple[str, ...]:
    """Return the keys that are meant in a dataset: its own keys, and keys without an origin."""
    return tuple(key for key in keys if key not in origins or any(origin.is_of(folder) for origin in origins[key]))


def foreign_keys_error(origins: KeyOrigins, *, at: str) -> ConfigError:
    """Return the error about keys that are in no named dataset."""
    paths = sorted({origin.path for some in origins.values() for origin in some})
    more = f" and {len(paths) - _MAX_SHOWN:,} more" if len(paths) > _MAX_SHOWN else ""
    return ConfigError(
        f"the file lists no sample of this dataset, but of {', '.join(paths[:_MAX_SHOWN])}{more}",
        at=at,
        hint="name one of those datasets; or list the keys alone in a .txt file, one a line",
    )


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)
