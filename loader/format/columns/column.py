"""Write and open the columns of a dataset."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import ConfigError, EnergonError, FormatError
from ...storage import Storage, map_file, read_document
from ..documents.messages import did_you_mean
from ..documents.value_name import ValueName
from ..index.layout import SampleIndex, ShardEntry
from ..index.npy_column import create_column, map_column
from ..nv_meta import COLUMNS_FOLDER

_FORMAT_VERSION = 1
BY_STATS = "energon stats"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_IN_FOLDER = re.compile(rf"{re.escape(COLUMNS_FOLDER)}/([^/]+)\.json")


class ColumnRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The ``.json`` file of a column."""

    samples: int
    shards: str  # digest of the shards, see :func:`shards_digest`
    missing: int | float | None = None  # the value of samples without one; of floats, NaN also is
    categories: tuple[str, ...] = ()  # if not empty, the values are positions in this list of texts
    unit: str = ""  # unit of the values: ``"pixels"``, ``"seconds"`` …
    description: str = ""  # one line about the values
    made_by: str = ""  # program that wrote the column
    has_mask: bool = False  # ``<name>.valid.npy`` holds True for the samples that have a value
    length: int = 0  # elements of each vector; 0 for numbers and texts
    metric: str = ""  # how vectors are compared: ``"cosine"``, ``"hamming"`` or ``"jaccard"``
    model: str = ""  # what made the vectors
    has_texts: bool = False  # ``<name>.utf8`` holds the texts, and the values are the ends of their bytes in it
    format_version: int = msgspec.field(default=_FORMAT_VERSION)  # version of this format


def check_column_name(name: str, *, at: str) -> None:
    """Raise an error if a column may not have this name; conditions use it as a variable.

    >>> check_column_name("width", at="/data/coco")
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"expected the name of a column, found {name!r}",
            at=at,
            hint="use letters, digits and '_', and begin with a letter",
        )


def column_path(name: str, extension: str) -> str:
    """Return the name of a column's file in the dataset.

    >>> column_path("width", ".npy")
    '.nv-meta/columns/width.npy'
    """
    return f"{COLUMNS_FOLDER}/{name}{extension}"


def column_names(storage: Storage) -> list[str]:
    """List the columns of a dataset."""
    if not storage.exists(COLUMNS_FOLDER):
        return []
    matches = (_IN_FOLDER.fullmatch(file.name) for file in storage.list(COLUMNS_FOLDER))
    return sorted(match[1] for match in matches if match and _NAME.fullmatch(match[1]))


def shards_digest(shards: Iterable[ShardEntry]) -> str:
    """Return a digest of the names, sizes and numbers of samples of shards, in order, as 32 hex digits."""
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(f"{shard.name}\0{shard.samples}\0{shard.size_bytes}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def read_record(storage: Storage, name: str) -> ColumnRecord:
    """Read the ``.json`` file of a column."""
    file = column_path(name, ".json")
    path = storage.path(file)
    try:
        record = msgspec.json.decode(read_document(storage, file), type=ColumnRecord)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FormatError(
            f"the record of column {name!r} is damaged: {error}", shard=path, hint="write the column again"
        ) from error
    if record.format_version != _FORMAT_VERSION:
        raise FormatError(
            f"expected a column of format_version {_FORMAT_VERSION}, found {record.format_version}",
            shard=path,
            hint="update energon-toolkit, or write the column again",
        )
    return record


def value_of_column(storage: Storage, name: str) -> str:
    """Return the name of the value that a column holds, or the column's name if the value is not known."""
    try:
        record = read_record(storage, name)
    except EnergonError:
        return name
    return record.description if record.made_by.startswith(BY_STATS) and record.description else name


def column_of(storage: Storage, value: ValueName) -> str | None:
    """Return the column that ``energon stats`` wrote with a value, in this version or an earlier one; None if none."""
    named = ((name, value_of_column(storage, name)) for name in column_names(storage))
    return next((name for name, known in named if known in (str(value), value.dotted) and known != name), None)


_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A value for each sample of a dataset."""

    name: str  # name of the column
    record: ColumnRecord  # its unit, categories and so on
    values: npt.NDArray[Any]  # array of shape (samples,), or (samples, length) of vectors; read-only and memory-mapped
    valid: npt.NDArray[np.bool_] | None = None  # shape (samples,): True for samples with a value; None without a mask
    text_bytes: memoryview | None = None  # the texts of all samples, one after another

    def is_known(self, rows: slice | npt.NDArray[Any] = slice(None)) -> npt.NDArray[np.bool_]:
        """Return True for the samples that have a value."""
        if self.valid is not None:
            return np.array(self.valid[rows])
        values = self.values[rows]
        if self.record.length:
            return np.ones(len(values), np.bool_)
        known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), np.bool_)
        return known if self.record.missing is None else known & (values != self.record.missing)

    def value(self, sample: int) -> Any:
        """Return the value of a sample as a Python object, a vector as an array; None if it has none."""
        if not self.is_known(np.array([sample]))[0]:
            return None
        if self.record.has_texts:
            return self.texts(np.array([sample]))[0]
        if self.record.length:
            return self.values[sample]
        value = self.values[sample].item()
        if self.record.categories:
            return self.record.categories[value] if 0 <= value < len(self.record.categories) else None
        return value  # type: ignore[no-any-return]

    def texts(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
        """Return the texts of some samples, None for those without; of a column that has texts.

        Args:
            rows: Numbers of samples, shape (n,).
        """
        data, ends, texts = self.text_bytes or memoryview(b""), self.values, np.empty(len(rows), object)
        starts = np.where(rows > 0, ends[np.maximum(rows - 1, 0)], 0).tolist()
        known = self.is_known(rows).tolist()
        for place, (start, end) in enumerate(zip(starts, ends[rows].tolist(), strict=True)):
            texts[place] = bytes(data[start:end]).decode("utf-8", "surrogatepass") if known[place] else None
        return texts


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
        values: Array of integers, floats or booleans, of shape (samples,).
        missing: Value of the samples that have none; floats may also be NaN.
        categories: If given, ``values`` are positions in this list of texts.
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


Block = tuple[Any, npt.NDArray[np.bool_]]
"""Values of consecutive samples (an array, or a list of texts), and which of them are known."""


def write_map_column(
    storage: Storage,
    index: SampleIndex,
    name: str,
    dtype: np.dtype[Any] | None,
    blocks: Iterable[Block],
    *,
    length: int = 0,
    description: str = "",
    made_by: str = "",
    metric: str = "",
    model: str = "",
) -> None:
    """Write a column of numbers, vectors or texts block by block; an earlier one of this name is replaced.

    Args:
        dtype: Type of the numbers; None for texts.
        blocks: The values of all samples, in the order of the index.
        length: Elements of each vector; 0 for numbers and texts.
    """
    check_column_name(name, at=storage.path(COLUMNS_FOLDER))
    stem, known_samples = column_path(name, ""), 0
    remove_column(storage, name)
    with (
        create_column(
            storage, f"{stem}.npy", "<i8" if dtype is None else dtype.newbyteorder("<").str, length=length
        ) as column,
        create_column(storage, f"{stem}.valid.npy", "|b1") as valid,
        storage.create(f"{stem}.utf8") if dtype is None else nullcontext() as text_file,
    ):
        end = 0
        for values, known in blocks:
            if text_file is not None:
                texts = [text.encode("utf-8", "surrogatepass") for text in values]
                text_file.writelines(texts)
                values = end + np.cumsum([len(text) for text in texts], dtype=np.int64)  # noqa: PLW2901 - their ends
                end = int(values[-1]) if len(values) else end
            column.append(values)
            valid.append(known)
            known_samples += int(known.sum())
    if known_samples == len(index):
        storage.remove(f"{stem}.valid.npy")
    record = ColumnRecord(
        samples=len(index),
        shards=shards_digest(index.shards),
        description=description,
        made_by=made_by,
        has_mask=known_samples < len(index),
        length=length,
        metric=metric,
        model=model,
        has_texts=dtype is None,
    )
    with storage.create(f"{stem}.json") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2))


def remove_column(storage: Storage, name: str) -> None:
    """Remove the files of a column, if there is one: first its record, so that a kill leaves none."""
    for extension in (".json", ".valid.npy", ".utf8", ".npy"):
        if storage.exists(column_path(name, extension)):
            storage.remove(column_path(name, extension))


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
    """Open a column of a dataset."""
    names = column_names(storage)
    if name not in names:
        raise ConfigError(
            f"there is no column {name!r}{did_you_mean(name, names) if names else ''}",
            at=storage.path(COLUMNS_FOLDER),
            hint=f"write it: energon stats {storage.path('')} --write {name}",
        )
    return read_column(storage, index.shards, name)


def read_column(storage: Storage, shards: Sequence[ShardEntry], name: str) -> Column:
    """Open an existing column of a dataset that has these shards."""
    record, file = read_record(storage, name), column_path(name, ".npy")
    if record.samples != sum(shard.samples for shard in shards) or record.shards != shards_digest(shards):
        raise _stale(storage, name, "it was written for other shards")
    try:
        values = map_column(storage, file, None, length=record.length, is_fixed=False)
        valid, texts = None, None
        if record.has_mask:
            valid = map_column(storage, column_path(name, ".valid.npy"), None, is_fixed=False)
        if record.has_texts:
            ends = int(values[-1]) if len(values) else 0
            texts = (
                memoryview(map_file(str(storage.local_path(column_path(name, ".utf8"))))) if ends else memoryview(b"")
            )
            if len(texts) != ends:
                raise _stale(storage, name, f"expected {ends:,} bytes of texts, found {len(texts):,}")
    except FormatError as error:
        raise _stale(storage, name, error.message) from error
    for found in (values, values if valid is None else valid):
        if len(found) != record.samples:
            raise _stale(storage, name, f"expected {record.samples:,} values, found {len(found):,}")
    return Column(name, record, values, valid, texts)


def write_again(storage: Storage, name: str) -> str:
    """Return the line that writes a column again."""
    words = ["energon", "stats", storage.path(""), "--write", value_of_column(storage, name)]
    return f"write it again: {shlex.join(words)}"


def _stale(storage: Storage, name: str, fault: str) -> FormatError:
    return FormatError(
        f"column {name!r} is damaged or stale: {fault}",
        shard=storage.path(column_path(name, ".npy")),
        hint=write_again(storage, name),
    )
