"""The sources of added parts (a dataset, a table with keys, or files named by key), and the samples that they match."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ...dataset.dataset import Dataset
from ...dataset.opening import folder_at
from ...dataset.tar import tar_index
from ...errors import ConfigError
from ...format.dataset_ref import DatasetRef
from ...format.documents.dataset_files import read_shard_info
from ...format.index.dataset_index import DatasetIndex
from ...format.tar.names import split_member_name
from ...storage import open_storage
from ..rows.row import CellReader, FileRef, PartRef, Row, ValueRef
from ..sources.dataset import DatasetSource
from ..sources.detect import SourceOptions, open_source
from ..sources.source import Listing, Source
from ..tables.part_values import encode_json
from ..tables.records import DelimitedReader, open_text_table, read_json_lines

_TABLES = (".jsonl", ".csv", ".tsv")
_KEYS = ("__key__", "key", "id")


def open_parts(path: str, *, key_column: str | None) -> Source:
    """Open a source of parts by what is there.

    Args:
        path: A prepared dataset, a ``.jsonl``, ``.csv`` or ``.tsv`` file, or another source of an import.
        key_column: Column of a table with the keys; None takes ``__key__``, ``key`` or ``id``.
    """
    if path.lower().endswith(_TABLES):
        return KeyedTable(path=path, key_column=key_column)
    if not os.path.isfile(path) and read_shard_info(open_storage(path)) is not None:
        return DatasetSource(ref=DatasetRef(path), keeps_splits=False)
    source = open_source(path, kind=None, options=SourceOptions(key=key_column))
    return FilesByKey(path=path) if source.kind == "folder" else source


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesByKey(Source):
    """Files that are named as the members of shards: ``a/b.cap.txt`` is the part ``cap.txt`` of the key ``a/b``."""

    path: str
    kind: str = "folder"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - files are read in any order
        """Yield the samples, sorted by key; files without an extension are skipped."""
        storage = open_storage(self.path)
        named = ((split_member_name(file.name), file) for file in storage.list())
        members = ((name, file) for name, file in named if name is not None)
        for key, files in groupby(members, key=lambda member: member[0][0]):
            parts: dict[str, PartRef] = {
                part: FileRef(os.fsencode(storage.path(file.name)), file.size_bytes, file.version)
                for (_, part), file in files
            }
            yield Row(key=key, parts=parts, origin=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTable(Source):
    """The rows of a JSONL, CSV or TSV file: texts are the parts ``<column>.txt``, other values ``<column>.json``.

    Attributes:
        key_column: Column of the keys; None takes the first of ``__key__``, ``key`` and ``id``.
    """

    path: str
    key_column: str | None = None
    kind: str = "table"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - rows have values
        """Yield the rows."""
        for line, record in self._records():
            column = self._key(record, line)
            key = record.pop(column)
            if key is None or key == "":
                raise ConfigError(
                    f"the column {column!r} is empty in this line; expected the key of a sample",
                    at=f"{self.path}, line {line}",
                    hint="give the line a key, or remove it",
                )
            parts: dict[str, PartRef] = {}
            for name, value in record.items():
                if value is not None:
                    part = _part_name(name)
                    is_text = isinstance(value, str)
                    data = value.encode("utf-8", "surrogatepass") if is_text else encode_json(value)
                    new = f"{part}.{'txt' if is_text else 'json'}"
                    if new in parts:
                        raise ConfigError(
                            f"two columns, one of them {name!r}, would be the part {new!r}",
                            at=f"{self.path}, line {line}",
                            hint="give the columns names that differ in more than case and punctuation",
                        )
                    parts[new] = ValueRef(data)
            yield Row(key=str(key), parts=parts, origin=f"{os.path.basename(self.path)}, line {line}")

    def _key(self, record: Mapping[str, Any], line: int) -> str:
        for name in _KEYS if self.key_column is None else (self.key_column,):
            if name in record:
                return name
        raise ConfigError(
            f"expected a column {' or '.join(_KEYS) if self.key_column is None else repr(self.key_column)} with the"
            f" keys, found {', '.join(map(str, list(record)[:20]))}",
            at=f"{self.path}, line {line}",
            hint="name the column of the keys with --key-column",
        )

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        kind = self.path.lower().rpartition(".")[2]
        with open_text_table(self.path) as file:
            is_json = kind == "jsonl"
            records = read_json_lines(file) if is_json else DelimitedReader(file, kind=kind, path=self.path).records()
            for record in records:
                if record.fault:
                    raise ConfigError(
                        f"this line is no row: {record.fault}",
                        at=f"{self.path}, line {record.line}",
                        hint=record.hint or "correct or remove the line",
                    )
                values = record.values if is_json else {name: value or "" for name, value in record.values.items()}
                yield record.line, dict(values)


def _part_name(column: str) -> str:
    """Return the name of the part that a column becomes.

    >>> _part_name("Long Caption/en")
    'long_caption_en'
    """
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in column.lower()).strip(".") or "_"


ALL_PART = "all"
"""The one split part of a dataset of added parts: the split of the first dataset applies."""

_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedSource(Source):
    """The rows of another source that belong to samples of a dataset, under the keys of these.

    Attributes:
        rename: Part name → new name.
    """

    source: Source
    dataset: str
    rename: Mapping[str, str] = field(default_factory=dict)
    kind: str = "added parts"

    @property
    def path(self) -> str:  # type: ignore[override]  # it never changes
        return self.source.path

    def rows(self, listing: Listing) -> Iterator[Row]:
        index = tar_index(folder_at(self.dataset))
        for row in self.source.rows(listing):
            samples = _find(index, row.key)
            if not samples:
                listing.account.lose("rows", "L112", row.key, size_bytes=max(0, row.size_bytes))
            else:
                parts = {self.rename.get(name, name): part for name, part in row.parts.items()}
                yield msgspec.structs.replace(row, key=index.key(samples[0]), parts=parts, split=ALL_PART)

    def open_cells(self) -> CellReader:
        return self.source.open_cells()


def _find(index: DatasetIndex, key: str) -> list[int]:
    """Return the samples that a join matches with a key; ``<shard>/<key>`` names one, and so all of its bare key."""
    found = index.find_first_full(key)
    return found if not found or index.key(found[0]) == key else index.find(index.key(found[0]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatchCount:
    """Counts of rows and samples that match.

    Attributes:
        matched: Number of rows that belong to samples.
        unused: Number of rows that belong to none.
        parts: Part name → number of matched rows that have it, under its new name.
        has_parts: Shape (n,): True for the samples of the dataset that have a row.
    """

    matched: int
    unused: int
    unused_rows: tuple[str, ...]
    parts: Mapping[str, int]
    has_parts: npt.NDArray[np.bool_]


def count_matches(source: MatchedSource, folder: Dataset, *, scratch: str) -> MatchCount:
    """Compare the keys of a source with the keys of a dataset."""
    index = tar_index(folder)
    has_parts = np.zeros(len(index), np.bool_)
    parts: dict[str, int] = {}
    matched, unused, shown = 0, 0, list[str]()
    for row in source.source.rows(Listing(scratch=scratch)):
        samples = _find(index, row.key)
        if not samples:
            unused += 1
            shown += [row.key] * (len(shown) < _MAX_SHOWN)
            continue
        if has_parts[samples[0]]:
            raise ConfigError(
                f"two rows belong to the sample {index.full_key(samples[0])!r}; one of them is {row.origin or row.key}",
                at=source.path,
                hint="remove one of them, or give the samples of the dataset unique keys: energon prepare"
                " --fix-duplicates",
            )
        has_parts[samples] = True
        matched += 1
        for name in row.parts:
            new = source.rename.get(name, name)
            parts[new] = parts.get(new, 0) + 1
    return MatchCount(matched=matched, unused=unused, unused_rows=tuple(shown), parts=parts, has_parts=has_parts)
