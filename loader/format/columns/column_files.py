"""Write and open the columns of a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import ConfigError, FormatError, StorageError
from ...storage import LocalStorage, Storage, rename_file
from ...storage.shared_answers import has_answers
from ..documents.messages import did_you_mean
from ..index.layout import AbstractIndex, ShardEntry
from ..index.npy_column import ColumnReader, create_column, map_bytes, map_column
from ..nv_meta import COLUMNS_FOLDER, LOCK
from .column import DATE, STORED, Column, column_class
from .column_record import (
    DATA_EXTENSIONS,
    NEW,
    ColumnRecord,
    check_column_name,
    column_names,
    column_path,
    current_file,
    read_record,
    shards_digest,
    write_again,
)

_ROWS_AT_ONCE = 1 << 20


def write_column(
    storage: Storage,
    index: AbstractIndex,
    name: str,
    values: npt.NDArray[Any],
    *,
    missing: float | None = None,
    categories: Sequence[str] = (),
    unit: str = "",
    description: str = "",
    made_by: str = "",
    is_locked: bool = False,
) -> None:
    """Write a column; an earlier one of this name is replaced. Writers of a dataset wait for each other.

    Args:
        values: Array of integers, floats, booleans or dates, of shape (samples,).
        missing: Value of the samples that have none; floats may also be NaN.
        categories: If given, ``values`` are positions in this list of texts.
        is_locked: The caller holds the lock of the dataset, as it does if new values depend on earlier ones.
    """
    if values.shape != (len(index),) or values.dtype.kind not in "biufM":
        raise ConfigError(
            f"expected {len(index):,} numbers or dates for column {name!r}, found an array of {values.dtype} and shape "
            f"{values.shape}",
            at=storage.path(COLUMNS_FOLDER),
            hint="pass one value for each sample, in the order of the index",
        )
    write_map_column(
        storage,
        index,
        name,
        DATE if values.dtype.kind == "M" else values.dtype,
        ((values[start : start + _ROWS_AT_ONCE], None) for start in range(0, len(values), _ROWS_AT_ONCE)),
        is_locked=is_locked,
        has_mask=False,
        missing=missing,
        categories=tuple(categories),
        unit=unit,
        description=description,
        made_by=made_by,
    )


Block = tuple[Any, npt.NDArray[np.bool_] | None]
"""Values of consecutive samples (an array, or a list of texts), and which of them are known; None without a mask."""


def write_map_column(
    storage: Storage,
    index: AbstractIndex,
    name: str,
    dtype: np.dtype[Any] | None,
    blocks: Iterable[Block],
    *,
    is_locked: bool = False,
    has_mask: bool = True,
    **facts: Any,
) -> None:
    """Write a column of numbers, vectors or texts block by block, as :func:`write_column` does.

    Args:
        dtype: Type of the numbers; None for texts.
        blocks: The values of all samples, in the order of the index.
        has_mask: The blocks say which samples have a value.
        **facts: Further fields of the record, such as the ``length`` of vectors.
    """
    check_column_name(name, at=storage.path(COLUMNS_FOLDER))
    shards = shards_digest(index.shards)
    record = ColumnRecord(samples=len(index), shards=shards, has_mask=has_mask, has_texts=dtype is None, **facts)
    if dtype is None:
        blocks = (([text.encode("utf-8", "surrogatepass") for text in texts], known) for texts, known in blocks)
    with nullcontext() if is_locked else storage.lock(LOCK, wait=True):
        write_column_files(storage, column_path(name, ""), record, dtype or np.dtype(np.int64), blocks)


def staged_files(storage: Storage, stem: str) -> list[str]:
    """Return the files that a write of a column has not renamed yet, its record first."""
    files = [f"{stem}{NEW}{extension}" for extension in (".json", *DATA_EXTENSIONS)]
    return [file for file in files if storage.exists(file)] if isinstance(storage, LocalStorage) else []


def _rename_staged(storage: Storage, stem: str) -> None:
    """Finish the replacement of a column whose earlier record is gone; without its record, nothing replaces it."""
    record, *data = staged_files(storage, stem) or [""]
    if record.endswith(".json") and not storage.exists(f"{stem}.json"):
        for file in (*data, record):
            rename_file(storage, file, stem + file.removeprefix(f"{stem}{NEW}"))


def write_column_files(
    storage: Storage, stem: str, record: ColumnRecord, dtype: np.dtype[Any], blocks: Iterable[Block]
) -> None:
    """Write the files of a column, whose names without the extensions are ``stem``; earlier ones are replaced.

    On this machine, the caller holds the lock of the dataset, and a kill leaves the earlier column or this one. In an
    object store, it may leave none, if it comes while the last objects are stored.

    Args:
        record: Its record; with a mask, if samples may lack a value. The mask is left out if none does.
        blocks: The values of all samples; texts as lists of bytes.
    """
    # Write next to the earlier column. Objects cannot be renamed.
    _rename_staged(storage, stem)
    for file in staged_files(storage, stem):
        storage.remove(file)
    staged = f"{stem}{NEW}" if isinstance(storage, LocalStorage) else stem
    known_samples = end = 0
    with ExitStack() as files:
        length, element = record.length, dtype.newbyteorder("<").str
        column = files.enter_context(create_column(storage, f"{staged}.npy", element, length=length))
        valid = files.enter_context(create_column(storage, f"{staged}.valid.npy", "|b1")) if record.has_mask else None
        text_file = files.enter_context(storage.create(f"{staged}.utf8")) if record.has_texts else None
        for block, known in blocks:
            values = block
            if text_file is not None:
                text_file.writelines(block)
                values = end + np.cumsum([len(text) for text in block], dtype=np.int64)
                end = int(values[-1]) if len(values) else end
            column.append(values)
            if valid is not None and known is not None:
                valid.append(known)
                known_samples += int(known.sum())
        if staged == stem and storage.exists(f"{stem}.json"):
            storage.remove(f"{stem}.json")  # before the end of the block stores the new values under the same names
    if record.has_mask and known_samples == record.samples:
        storage.remove(f"{staged}.valid.npy")
        record = msgspec.structs.replace(record, has_mask=False)
    with storage.create(f"{staged}.json") as record_file:
        record_file.write(msgspec.json.format(msgspec.json.encode(record), indent=2))
    # Replace the earlier column: without its record, readers take the new files.
    if staged != stem:
        storage.remove(f"{stem}.json")
        _rename_staged(storage, stem)
    for extension, is_needed in ((".valid.npy", record.has_mask), (".utf8", record.has_texts)):
        if not is_needed and storage.exists(f"{stem}{extension}"):
            storage.remove(f"{stem}{extension}")


def open_column(storage: Storage, index: AbstractIndex, name: str, *, reads_vectors: bool = True) -> Column:
    """Open a column of a dataset; for ``reads_vectors`` see :func:`read_column`."""
    names = column_names(storage)
    if name not in names:
        raise ConfigError(
            f"there is no column {name!r}{did_you_mean(name, names) if names else ''}",
            at=storage.path(COLUMNS_FOLDER),
            hint=f"write it: energon stats {storage.path('')} --write {name}",
        )
    return read_column(storage, index.shards, name, reads_vectors=reads_vectors)


def read_column(storage: Storage, shards: Sequence[ShardEntry], name: str, *, reads_vectors: bool = True) -> Column:
    """Open an existing column of a dataset that has these shards.

    Args:
        reads_vectors: False reads only the header of vectors, which are zeros then: where it is enough to know which
            samples have one, the vectors of a remote dataset are not copied.
    """
    # A column that is replaced at this moment is read again, so that all of its files are of one write.
    while True:
        with ExitStack() as held:
            before = _version(storage, name, held)
            try:
                column = _read_files(storage, shards, name, reads_vectors=reads_vectors)
            except (FormatError, StorageError):
                if _version(storage, name, held) == before:
                    raise
                continue
            if before != _GONE and _version(storage, name, held) == before:
                return column


_GONE = ("",)  # version of a column without a record


def _version(storage: Storage, name: str, held: ExitStack) -> tuple[str | int, ...]:
    """Return what differs for each state of the files of a column.

    Nothing does in an object store, for speed, or if another process has read the record for this one.

    Sizes and times of two writes may be equal, so the number of the record's file counts, which no other file gets
    while it is held open.
    """
    if not isinstance(storage, LocalStorage) or has_answers(storage):
        return ()
    file, plain = current_file(storage, name, ".json"), column_path(name, "")
    try:
        record = os.open(storage.path(file), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _GONE
    held.callback(os.close, record)
    # Until the record has its final name, the others are renamed one by one.
    return os.fstat(record).st_ino, file, *(staged_files(storage, plain) if file != f"{plain}.json" else ())


def _read_files(storage: Storage, shards: Sequence[ShardEntry], name: str, *, reads_vectors: bool) -> Column:
    record, file = read_record(storage, name), current_file(storage, name, ".npy")
    if record.samples != sum(shard.samples for shard in shards) or record.shards != shards_digest(shards):
        raise _stale(storage, name, "it was written for other shards")
    try:
        if record.length and not reads_vectors:
            with ColumnReader(storage, file, accepted=STORED, length=record.length) as reader:
                values = reader.without_values()
        else:
            values = map_column(storage, file, None, accepted=STORED, length=record.length, is_fixed=False)
        valid: Any = None
        if record.has_mask:
            mask = current_file(storage, name, ".valid.npy")
            valid = map_column(storage, mask, None, accepted=STORED, is_fixed=False)
        texts = map_bytes(storage, current_file(storage, name, ".utf8")) if record.has_texts else None
    except (FormatError, StorageError) as error:
        of_other = f": {error.at}" if error.at != storage.path(file) else ""
        raise _stale(storage, name, f"{error.message}{of_other}") from error
    column = column_class(record, values.dtype)(name, record, values, valid, texts, storage.path(file))
    fault = column.fault()
    if fault is not None:
        raise _stale(storage, name, fault)
    return column


def _stale(storage: Storage, name: str, fault: str) -> FormatError:
    return FormatError(
        f"column {name!r} is damaged or stale: {fault}",
        shard=storage.path(column_path(name, ".npy")),
        hint=write_again(storage, name),
    )
