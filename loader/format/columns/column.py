"""Write and open the columns of a dataset."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import ConfigError, EnergonError, FormatError, StorageError
from ...storage import LocalStorage, Storage, read_document
from ...storage.shared_answers import has_answers
from ..documents.messages import did_you_mean
from ..documents.value_name import ValueName
from ..index.layout import SampleIndex, ShardEntry
from ..index.npy_column import NUMBERS, ColumnReader, create_column, map_bytes, map_column
from ..nv_meta import COLUMNS_FOLDER, LOCK

_FORMAT_VERSION = 1
DATA_EXTENSIONS = (".npy", ".valid.npy", ".utf8")  # of the files that a column may have next to its record
_VECTOR_TYPES = ("float16", "float32", "uint8", "uint32")
BY_STATS = "energon stats"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_NEW = ".new"  # between the name of a column and the extension: a file that replaces the one without it


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

    @property
    def kind(self) -> str:
        """``"vectors"``, ``"texts"``, ``"categories"`` or ``"numbers"``."""
        if self.length:
            return "vectors"
        return "texts" if self.has_texts else "categories" if self.categories else "numbers"


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
    files = {file.name for file in storage.list(COLUMNS_FOLDER)}
    names = {file.removeprefix(f"{COLUMNS_FOLDER}/").partition(".")[0] for file in files}
    return sorted(
        name
        for name in names
        if _NAME.fullmatch(name) and (column_path(name, ".json") in files or _has_record(storage, name))
    )


def _has_record(storage: Storage, name: str) -> bool:
    """Return True if a column has a record, also if that gets its final name between two questions."""
    return any(storage.exists(column_path(name, end)) for end in (".json", f"{_NEW}.json", ".json"))


def shards_digest(shards: Iterable[ShardEntry]) -> str:
    """Return a digest of the names, sizes and numbers of samples of shards, in order, as 32 hex digits."""
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(f"{shard.name}\0{shard.samples}\0{shard.size_bytes}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def read_record(storage: Storage, name: str) -> ColumnRecord:
    """Read the ``.json`` file of a column."""
    file = _current(storage, name, ".json")
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
_TEXTS_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A value for each sample of a dataset."""

    name: str  # name of the column
    record: ColumnRecord  # its unit, categories and so on
    values: npt.NDArray[Any]  # array of shape (samples,), or (samples, length) of vectors; read-only and memory-mapped
    valid: npt.NDArray[np.bool_] | None = None  # shape (samples,): True for samples with a value; None without a mask
    text_bytes: memoryview | None = None  # the texts of all samples, one after another
    path: str = ""  # path of the file of values, for messages

    @property
    def kind(self) -> str:
        """The kind of its values, as in its record."""
        return self.record.kind

    def is_known(self, rows: slice | npt.NDArray[Any] = slice(None)) -> npt.NDArray[np.bool_]:
        """Return True for the samples that have a value; only the mask decides for vectors and texts."""
        values = self.values[rows]
        # Bytes other than 0 and 1 are no booleans, which numpy does not check.
        known = np.ones(len(values), np.bool_) if self.valid is None else self.valid[rows].view(np.uint8) != 0
        if self.record.length or self.record.has_texts:
            return known
        if values.dtype.kind == "f":
            known &= ~np.isnan(values)
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
        return value

    def texts(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
        """Return the texts of some samples, None for those without; of a column that has texts.

        Args:
            rows: Numbers of samples, shape (n,).
        """
        texts, decoded = np.empty(len(rows), object), list[str | None]()
        try:
            for data, is_known in zip(self.encoded_texts(rows), self.is_known(rows).tolist(), strict=True):
                decoded.append(str(data, "utf-8", "surrogatepass") if is_known else None)
        except UnicodeDecodeError as error:
            raise self.damaged(f"the text of sample {rows[len(decoded)]} is not UTF-8") from error
        texts[:] = decoded
        return texts

    def encoded_texts(self, rows: npt.NDArray[Any]) -> list[bytes | memoryview]:
        """Return the bytes of the texts of some samples, which are empty for samples without one."""
        self._check_ends(rows)
        starts, stops = self.text_starts(rows), self.values[rows]
        data: bytes | memoryview = memoryview(b"") if self.text_bytes is None else self.text_bytes
        # Neighbours are copied at once: slices of bytes take a third of the time of slices of a memory map.
        if len(rows):
            first, end = int(starts.min()), int(stops.max())
            if end - first <= min(_BYTES_AT_ONCE, 2 * int((stops - starts).sum())):
                data, starts, stops = bytes(data[first:end]), starts - first, stops - first
        return [data[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]

    def text_starts(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the offsets of the first bytes of the texts of some samples."""
        return np.where(rows > 0, self.values[np.maximum(rows - 1, 0)], 0)

    def _check_ends(self, rows: npt.NDArray[Any]) -> None:
        starts, stops = self.text_starts(rows), self.values[rows]
        size_bytes = 0 if self.text_bytes is None else len(self.text_bytes)
        if len(rows) and (int(starts.min()) < 0 or (starts > stops).any() or int(stops.max()) > size_bytes):
            raise self.damaged("the ends of its texts do not ascend")

    def count_missing(self) -> int:
        """Return the number of samples that have no value."""
        if self.valid is None and self.record.missing is None and self.values.dtype.kind != "f":
            return 0
        blocks = (slice(start, start + _ROWS_AT_ONCE) for start in range(0, len(self.values), _ROWS_AT_ONCE))
        return sum(int((~self.is_known(block)).sum()) for block in blocks)

    def check(self, *, reads_texts: bool = True) -> None:
        """Compare every value with the format, which opening a column does not.

        Args:
            reads_texts: Decode the texts; else only their ends are compared.

        Raises:
            FormatError: A mask has other bytes than 0 and 1, or the texts are no texts.
        """
        for start in range(0, len(self.values), _TEXTS_AT_ONCE):
            rows = np.arange(start, min(start + _TEXTS_AT_ONCE, len(self.values)))
            if self.valid is not None and (self.valid[rows].view(np.uint8) > 1).any():
                raise self.damaged("its mask has other bytes than 0 and 1")
            if self.record.has_texts:
                self._check_ends(rows)
            if self.record.has_texts and reads_texts:
                self.texts(rows)

    def check_numbers(self, use: str, *, at: str) -> None:
        """Raise a ``ConfigError`` if the column has vectors or texts.

        Args:
            use: What the numbers are for, such as ``"a blend"``.
        """
        if self.kind in ("vectors", "texts"):
            raise ConfigError(
                f"expected a column of numbers for {use}, found {self.kind} in column {self.name!r}",
                at=at,
                hint="name another column",
            )

    def damaged(self, fault: str) -> FormatError:
        """Return the error about a file that is not as it was written."""
        return FormatError(
            f"column {self.name!r} is damaged or stale: {fault}",
            shard=self.path,
            hint=f"write the column again{f'; it was made by {self.record.made_by}' if self.record.made_by else ''}",
        )


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
    is_locked: bool = False,
) -> None:
    """Write a column; an earlier one of this name is replaced. Writers of a dataset wait for each other.

    Args:
        values: Array of integers, floats or booleans, of shape (samples,).
        missing: Value of the samples that have none; floats may also be NaN.
        categories: If given, ``values`` are positions in this list of texts.
        is_locked: The caller holds the lock of the dataset, as it does if new values depend on earlier ones.
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
    blocks = ((values[start : start + _ROWS_AT_ONCE], None) for start in range(0, len(values), _ROWS_AT_ONCE))
    with nullcontext() if is_locked else storage.lock(LOCK, wait=True):
        write_column_files(storage, column_path(name, ""), record, values.dtype, blocks)


Block = tuple[Any, npt.NDArray[np.bool_] | None]
"""Values of consecutive samples (an array, or a list of texts), and which of them are known; None without a mask."""


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
    """Write a column of numbers, vectors or texts block by block, as :func:`write_column` does.

    Args:
        dtype: Type of the numbers; None for texts.
        blocks: The values of all samples, in the order of the index.
        length: Elements of each vector; 0 for numbers and texts.
    """
    check_column_name(name, at=storage.path(COLUMNS_FOLDER))
    record = ColumnRecord(
        samples=len(index),
        shards=shards_digest(index.shards),
        description=description,
        made_by=made_by,
        has_mask=True,
        length=length,
        metric=metric,
        model=model,
        has_texts=dtype is None,
    )
    if dtype is None:
        blocks = (([text.encode("utf-8", "surrogatepass") for text in texts], known) for texts, known in blocks)
    with storage.lock(LOCK, wait=True):
        write_column_files(storage, column_path(name, ""), record, dtype or np.dtype(np.int64), blocks)


def _current(storage: Storage, name: str, extension: str) -> str:
    """Return the file of a column: once the record of an earlier column is gone, the file that replaces it."""
    new = column_path(name, f"{_NEW}{extension}")
    is_new = isinstance(storage, LocalStorage) and not storage.exists(column_path(name, ".json"))
    return new if is_new and storage.exists(new) else column_path(name, extension)


def staged_files(storage: Storage, stem: str) -> list[str]:
    """Return the files that a write of a column has not renamed yet, its record first."""
    files = [f"{stem}{_NEW}{extension}" for extension in (".json", *DATA_EXTENSIONS)]
    return [file for file in files if storage.exists(file)] if isinstance(storage, LocalStorage) else []


def _rename_staged(storage: Storage, stem: str) -> None:
    """Finish the replacement of a column whose earlier record is gone; without its record, nothing replaces it."""
    record, *data = staged_files(storage, stem) or [""]
    if record.endswith(".json") and not storage.exists(f"{stem}.json"):
        for file in (*data, record):
            storage.rename(file, stem + file.removeprefix(f"{stem}{_NEW}"))


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
    staged = f"{stem}{_NEW}" if isinstance(storage, LocalStorage) else stem
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


def open_column(storage: Storage, index: SampleIndex, name: str, *, reads_vectors: bool = True) -> Column:
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
    file, plain = _current(storage, name, ".json"), column_path(name, "")
    try:
        record = os.open(storage.path(file), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _GONE
    held.callback(os.close, record)
    # Until the record has its final name, the others are renamed one by one.
    return os.fstat(record).st_ino, file, *(staged_files(storage, plain) if file != f"{plain}.json" else ())


def _read_files(storage: Storage, shards: Sequence[ShardEntry], name: str, *, reads_vectors: bool) -> Column:
    record, file = read_record(storage, name), _current(storage, name, ".npy")
    if record.samples != sum(shard.samples for shard in shards) or record.shards != shards_digest(shards):
        raise _stale(storage, name, "it was written for other shards")
    try:
        if record.length and not reads_vectors:
            with ColumnReader(storage, file, accepted=NUMBERS, length=record.length) as reader:
                values = reader.without_values()
        else:
            values = map_column(storage, file, None, length=record.length, is_fixed=False)
        valid: Any = None
        if record.has_mask:
            valid = map_column(storage, _current(storage, name, ".valid.npy"), None, is_fixed=False)
        texts = map_bytes(storage, _current(storage, name, ".utf8")) if record.has_texts else None
    except (FormatError, StorageError) as error:
        of_other = f": {error.at}" if error.at != storage.path(file) else ""
        raise _stale(storage, name, f"{error.message}{of_other}") from error
    fault = _fault(record, values, valid, texts)
    if fault is not None:
        raise _stale(storage, name, fault)
    return Column(name, record, values, valid, texts, storage.path(file))


def _fault(
    record: ColumnRecord,
    values: npt.NDArray[Any],
    valid: npt.NDArray[Any] | None,
    text_bytes: memoryview | None,
) -> str | None:
    """Return how the files of a column contradict its record; None if they do not."""
    for rows in (values, values if valid is None else valid):
        if len(rows) != record.samples:
            return f"expected {record.samples:,} values, found {len(rows):,}"
    if valid is not None and valid.dtype != np.bool_:
        return f"expected booleans as its mask, found {valid.dtype}"
    if record.length and values.dtype not in _VECTOR_TYPES:
        return f"expected vectors of {', '.join(_VECTOR_TYPES)}, found {values.dtype}"
    if record.categories and values.dtype.kind not in "biu":
        return f"expected positions in the list of texts, found {values.dtype}"
    if record.has_texts and (record.length or record.categories or values.dtype != np.int64):
        return f"expected the ends of texts as int64, found {values.dtype} of shape {values.shape}"
    end = int(values[-1]) if text_bytes is not None and len(values) else 0
    if text_bytes is not None and len(text_bytes) != end:
        return f"expected {end:,} bytes of texts, found {len(text_bytes):,}"
    return None


def write_again(storage: Storage, name: str) -> str:
    """Return the line that writes a column again."""
    try:
        made_by = read_record(storage, name).made_by
    except EnergonError:
        made_by = ""
    if made_by and not made_by.startswith(BY_STATS):
        return f"write it again; it was made by {made_by}"
    words = ["energon", "stats", storage.path(""), "--write", value_of_column(storage, name)]
    return f"write it again: {shlex.join(words)}"


def _stale(storage: Storage, name: str, fault: str) -> FormatError:
    return FormatError(
        f"column {name!r} is damaged or stale: {fault}",
        shard=storage.path(column_path(name, ".npy")),
        hint=write_again(storage, name),
    )
