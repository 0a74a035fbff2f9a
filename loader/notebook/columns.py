"""Values of samples as arrays, and as Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..dataset.records import SingleFile, as_bytes
from ..errors import ConfigError, SampleError, required_package
from ..format.columns.column import Column
from ..format.columns.column_files import open_column
from ..pipeline.reading.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_TEXT_BYTES = 1 << 20
"""Largest part that a table takes: one of a gigabyte of bytes would be a mistake."""

Indexes = Sequence[tuple[Source, IntArray | None]]


class Columns(Mapping[str, npt.NDArray[Any]]):
    """The columns of a dataset by name: arrays of shape (samples,), or (samples, length) of vectors.

    The array of a whole dataset is memory-mapped, and so read-only; a selection has an array of its values. Samples
    without a value have NaN if the values are floats, also in all elements of a vector; otherwise they make a masked
    array. Texts are an array of ``str`` objects, None without a value.

    Args:
        indexes: Returns each dataset, and the numbers of its samples; None for all.
    """

    def __init__(self, indexes: Callable[[], Indexes]) -> None:
        self.indexes = indexes

    def _names(self) -> list[str]:
        names = [source.selection.first.documents.column_names() for source, _ in self.indexes()]
        return [name for name in names[0] if all(name in some for some in names)] if names else []

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Return the values of a column.

        Raises:
            ConfigError: A dataset has no such column; the message names a similar one.
            FormatError: A column is damaged, or of other shards.
        """
        # A single dataset keeps its memory-mapped array; several are copied into one.
        pieces = [column.array(_rows(numbers)) for column, numbers in self.opened(name)]
        if len(pieces) == 1:
            return pieces[0]
        is_masked = any(isinstance(piece, np.ma.MaskedArray) for piece in pieces)
        joined: npt.NDArray[Any] = (np.ma.concatenate if is_masked else np.concatenate)(pieces)
        return joined

    def opened(self, name: str) -> list[tuple[Column, IntArray | None]]:
        """Return a column of each dataset, and the numbers of the samples; for errors see ``[name]``."""
        indexes = self.indexes()
        if not indexes:
            raise ConfigError(f"there is no column {name!r}: the metadataset has no datasets")
        columns = [(_open(source, name), numbers) for source, numbers in indexes]
        first = columns[0][0]
        for (column, _), (source, _) in zip(columns, indexes, strict=True):
            if column.values.shape[1:] != first.values.shape[1:]:
                here, there = column.describe(), f"{first.describe()} in {indexes[0][0].selection.first.path}"
                raise ConfigError(
                    f"column {name!r} has {there}, but {here} in this dataset",
                    at=source.selection.first.path,
                    hint="select one of the datasets",
                )
        return columns

    def __repr__(self) -> str:
        return f"Columns({', '.join(self._names())})"


def _open(source: Source, name: str) -> Column:
    dataset = source.selection.first
    if isinstance(dataset, SingleFile):
        raise ConfigError(f"there is no column {name!r}: a single file has no columns", at=dataset.path)
    return open_column(dataset.storage, dataset.index, name)


def _rows(numbers: IntArray | None) -> slice | IntArray:
    """Return neighbours as a slice, which copies nothing; None are all."""
    if numbers is None:
        return slice(None)
    is_run = len(numbers) and int(numbers[-1]) - int(numbers[0]) == len(numbers) - 1 and (np.diff(numbers) == 1).all()
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if is_run else numbers


def arrow_table(
    columns: Columns,
    names: Sequence[str] | None,
    *,
    parts: Sequence[str],
    keys: bool,
    samples: Iterable[tuple[Source, int]],
) -> pa.Table:
    """Return columns, parts and keys as a table; ``names`` is None for all columns."""
    with required_package("to_arrow needs the package pyarrow", hint="run: pip install 'energon-toolkit[tables]'"):
        import pyarrow as pa

    chosen = [*(["key"] if keys else []), *(columns if names is None else names), *parts]
    twice = next((name for name in chosen if chosen.count(name) > 1), None)
    if twice is not None:
        message = f"two columns of the table would be named {twice!r}"
        raise ConfigError(message, hint="name the columns and parts to take, and make two tables")
    # Columns are added in the order in which they were named.
    table: dict[str, Any] = {}
    if keys:
        table["key"] = pa.array([key for source, some in columns.indexes() for key in _keys(source, some)], pa.string())
    for name in columns if names is None else names:
        pieces = [column.arrow(_rows(numbers)) for column, numbers in columns.opened(name)]
        table[name] = pa.chunked_array(pieces).combine_chunks() if len(pieces) > 1 else pieces[0]
    # Parts are read last: it takes the longest, and the columns may be wrong.
    if parts:
        rows = [_texts(source, index, parts) for source, index in samples]
        table |= {name: pa.array([row[name] for row in rows], pa.string()) for name in parts}
    return pa.table(table)


def _keys(source: Source, numbers: IntArray | None) -> Iterator[str]:
    index = source.selection.first.index
    return map(index.full_key, range(len(index)) if numbers is None else numbers.tolist())


def _texts(source: Source, index: int, names: Sequence[str]) -> dict[str, str | None]:
    """Return parts of a sample as text; None for those that it lacks."""
    # Read the named parts of a sample once, then decode each.
    parts = {name: as_bytes(value) for name, value in source.folder.read_parts(index, names).items()}
    texts: dict[str, str | None] = {}
    for name in names:
        data = parts.get(name)
        try:
            texts[name] = None if data is None else data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SampleError(
                f"expected text in part {name!r}, found bytes that are not UTF-8",
                at=source.folder.place_of(index),
                part=name,
                hint="name parts that are texts: txt, json, cls …",
            ) from error
        # All texts of a column are in memory together.
        if data is not None and len(data) > _MAX_TEXT_BYTES:
            raise SampleError(
                f"expected a part of at most {_MAX_TEXT_BYTES:,} bytes, found {len(data):,} in part {name!r}",
                at=source.folder.place_of(index),
                part=name,
                hint="read it with dataset.parts or dataset.read",
            )
    return texts
