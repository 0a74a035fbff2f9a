"""Carry the columns and filters that all inputs of a merge have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import numpy as np

from ...arrays import IntArray
from ...errors import EnergonError
from ...format.columns.column import Column, open_column, write_column
from ...format.columns.column_files import column_names
from ...format.filters.build import build_filter_index_from_shard_indexes
from ...format.filters.files import filter_names
from ...format.index.dataset_index import DatasetIndex
from ...format.index.layout import ShardEntry
from ...storage import Storage
from .inputs import MergeInput

COLUMN_FIELDS = ("missing", "categories", "unit", "description", "made_by")
"""Fields of the record of a column that a copy of its values keeps."""


def merge_columns(
    inputs: Sequence[MergeInput], storage: Storage, index: DatasetIndex
) -> tuple[tuple[str, ...], list[str]]:
    """Write the columns that all inputs have, with the same type of values.

    Args:
        inputs: The datasets.
        storage: The merged dataset.
        index: Its index.

    Returns:
        Names of the columns, and a warning for each column that was dropped.
    """

    def read(name: str) -> str | Callable[[], object]:
        columns = [open_column(one.folder.storage, one.index, name) for one in inputs]
        return _why_unlike(columns, inputs) or partial(_write, name, columns, inputs, storage, index)

    return _carry("column", [column_names(one.folder.storage) for one in inputs], inputs, read)


def _carry(
    what: str,
    names: Sequence[Collection[str]],
    inputs: Sequence[MergeInput],
    read: Callable[[str], str | Callable[[], object]],
) -> tuple[tuple[str, ...], list[str]]:
    """Read what all inputs have, and call what writes it; return its names, and a warning for the rest."""
    carried, warnings = [], []
    for name in sorted({name for some in names for name in some}):
        lacking = next((one.path for one, some in zip(inputs, names, strict=True) if name not in some), None)
        try:
            write = f"{lacking} has no such {what}" if lacking is not None else read(name)
        except EnergonError as error:
            write = error.message
        if isinstance(write, str):
            warnings.append(f"{what} {name!r} was dropped: {write}")
        else:
            write()
            carried.append(name)
    return tuple(carried), warnings


def _why_unlike(columns: Sequence[Column], inputs: Sequence[MergeInput]) -> str | None:
    """Return the reason why the values of columns cannot be one column, or None if they can."""
    first = columns[0].record
    for column, one in zip(columns, inputs, strict=True):
        record = column.record
        for what, found, expected in (
            ("the unit", record.unit, first.unit),
            ("the value of missing ones", record.missing, first.missing),
            ("texts", bool(record.categories), bool(first.categories)),
        ):
            if found != expected:
                return f"{what} differs: {expected!r} in {inputs[0].path}, {found!r} in {one.path}"
    return None


def _write(
    name: str, columns: Sequence[Column], inputs: Sequence[MergeInput], storage: Storage, index: DatasetIndex
) -> None:
    record = columns[0].record
    categories = tuple(dict.fromkeys(text for column in columns for text in column.record.categories))
    dtype = np.result_type(*(column.values.dtype for column in columns))
    if categories:
        dtype = np.result_type(dtype, np.min_scalar_type(len(categories)))
    values = np.empty(len(index), dtype)
    for column, one in zip(columns, inputs, strict=True):
        entries, own = one.entries, column.values
        if categories != column.record.categories:
            positions = {text: number for number, text in enumerate(categories)}
            table = np.array([positions[text] for text in column.record.categories], dtype)
            known = column.is_known() & (own >= 0) & (own < len(table))
            own = np.where(known, table[np.where(known, own, 0)], own.astype(dtype))
        for shard in index.shards:
            entry = entries.get(shard.name)
            if entry is not None:
                values[_rows(shard)] = own[_rows(entry)]
    write_column(
        storage,
        index,
        name,
        values,
        **{each: getattr(record, each) for each in COLUMN_FIELDS} | {"categories": categories},
    )


def _rows(shard: ShardEntry) -> slice:
    return slice(shard.first_sample, shard.first_sample + shard.samples)


def merge_filters(inputs: Sequence[MergeInput], path: str) -> tuple[tuple[str, ...], list[str]]:
    """Build the filters that all inputs have.

    Args:
        inputs: The datasets.
        path: Path of the merged dataset.

    Returns:
        Names of the filters, and a warning for each filter that was dropped.
    """

    def read(name: str) -> Callable[[], object]:
        kept = {shard: rows for one in inputs for shard, rows in _kept(one, name).items()}
        return partial(build_filter_index_from_shard_indexes, path, name, kept)

    return _carry("filter", [filter_names(one.folder.storage) for one in inputs], inputs, read)


def _kept(one: MergeInput, name: str) -> Mapping[str, IntArray]:
    """Return the kept samples of each shard of an input, counted within the shard."""
    rows = one.folder.open_filter(name)
    rows.check()
    found = {}
    for shard in one.index.shards:
        own = rows.rows_of(shard.name)
        found[one.new_name(shard.name)] = rows.numbers(np.arange(own.start, own.stop)) - shard.first_sample
    return found
