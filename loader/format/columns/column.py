"""Write and open the columns of a dataset."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import ConfigError, FormatError
from ...storage import Storage
from ..documents.messages import did_you_mean
from ..index.layout import SampleIndex, ShardEntry
from ..index.npy_column import create_column, map_column
from ..nv_meta import COLUMNS_FOLDER
from .column_files import (
    ColumnRecord,
    check_column_name,
    column_names,
    column_path,
    read_record,
    shards_digest,
    value_of_column,
)

_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A value for each sample of a dataset.

    Attributes:
        name: Name of the column.
        record: Its unit, categories and so on.
        values: Array of shape (samples,), read-only and memory-mapped.
    """

    name: str
    record: ColumnRecord
    values: npt.NDArray[Any]

    def is_known(self, rows: slice | npt.NDArray[Any] = slice(None)) -> npt.NDArray[np.bool_]:
        """Return True for the samples that have a value."""
        values = self.values[rows]
        known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), np.bool_)
        return known if self.record.missing is None else known & (values != self.record.missing)

    def value(self, sample: int) -> int | float | bool | str | None:
        """Return the value of a sample as a Python object; None if it has none."""
        if not self.is_known(np.array([sample]))[0]:
            return None
        value = self.values[sample].item()
        if self.record.categories:
            return self.record.categories[value] if 0 <= value < len(self.record.categories) else None
        return value  # type: ignore[no-any-return]


def write_column(
    storage: Storage,
    index: SampleIndex,
    name: str,
    values: npt.NDArray[Any],
    *,
    missing: float | None = None,
    categories: Sequence[str] = (),
    unit: str = "",
    description: str = "",
    made_by: str = "",
) -> None:
    """Write a column; an earlier one of this name is replaced.

    Args:
        storage: The dataset.
        index: Its index.
        name: Name of the column.
        values: Array of integers, floats or booleans, of shape (samples,).
        missing: Value of the samples that have none; floats may also be NaN.
        categories: If given, ``values`` are positions in this list of texts.
        unit: Unit of the values.
        description: One line about the values.
        made_by: Program that writes the column.

    Raises:
        ConfigError: The name is not one of a column, or the values do not fit.
        StorageError: A file cannot be written.
    """
    check_column_name(name, at=storage.path(COLUMNS_FOLDER))
    if values.shape != (len(index),) or values.dtype.kind not in "biuf":
        raise ConfigError(
            f"expected {len(index):,} numbers for column {name!r}, found an array of {values.dtype} and shape "
            f"{values.shape}",
            at=storage.path(COLUMNS_FOLDER),
            hint="pass one value for each sample, in the order of the index",
        )
    record = ColumnRecord(
        samples=len(index),
        shards=shards_digest(index.shards),
        missing=missing,
        categories=tuple(categories),
        unit=unit,
        description=description,
        made_by=made_by,
    )
    blocks = (values[start : start + _ROWS_AT_ONCE] for start in range(0, len(values), _ROWS_AT_ONCE))
    write_column_files(storage, column_path(name, ""), record, values.dtype, blocks)


def write_column_files(
    storage: Storage, stem: str, record: ColumnRecord, dtype: np.dtype[Any], blocks: Iterable[npt.NDArray[Any]]
) -> None:
    """Write the two files of a column, whose names without the extensions are ``stem``."""
    if storage.exists(f"{stem}.json"):
        storage.remove(f"{stem}.json")  # a kill in between leaves no column, not a wrong one
    with create_column(storage, f"{stem}.npy", dtype.newbyteorder("<").str) as column:
        for block in blocks:
            column.append(block)
    with storage.create(f"{stem}.json") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2))


def open_column(storage: Storage, index: SampleIndex, name: str) -> Column:
    """Open a column of a dataset.

    Raises:
        ConfigError: There is no such column; the message names the existing ones.
        FormatError: A file of it is damaged, or the column is of other shards.
    """
    names = column_names(storage)
    if name not in names:
        raise ConfigError(
            f"there is no column {name!r}{did_you_mean(name, names) if names else ''}",
            at=storage.path(COLUMNS_FOLDER),
            hint=f"write it: energon stats {storage.path('')} --write {name}",
        )
    return read_column(storage, index.shards, name)


def read_column(storage: Storage, shards: Sequence[ShardEntry], name: str) -> Column:
    """Open an existing column of a dataset that has these shards.

    Raises:
        FormatError: A file of it is damaged, or the column is of other shards.
    """
    record, file = read_record(storage, name), column_path(name, ".npy")
    if record.samples != sum(shard.samples for shard in shards) or record.shards != shards_digest(shards):
        raise _stale(storage, name, "it was written for other shards")
    try:
        values = map_column(storage, file, None, is_fixed=False)
    except FormatError as error:
        raise _stale(storage, name, error.message) from error
    if len(values) != record.samples:
        raise _stale(storage, name, f"expected {record.samples:,} values, found {len(values):,}")
    return Column(name, record, values)


def write_again(storage: Storage, name: str) -> str:
    """Return the line that writes a column again."""
    words = ["energon", "stats", storage.path(""), "--write", value_of_column(storage, name)]
    return f"write it again: {shlex.join(words)}"


def _stale(storage: Storage, name: str, found: str) -> FormatError:
    return FormatError(
        f"column {name!r} is damaged or stale: {found}",
        shard=storage.path(column_path(name, ".npy")),
        hint=write_again(storage, name),
    )
