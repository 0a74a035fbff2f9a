"""Names and records of the two files of a column, and their digest of the shards.

``columns/<name>.npy`` in ``.nv-meta`` is a one-dimensional numpy array of integers, floats or booleans: a value for
each sample, in the order of the index. ``columns/<name>.json`` describes it. Its digest of the shards' names, sizes and
numbers of samples ties the values to their samples. Other tools ignore the folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import msgspec

from ...errors import ConfigError, EnergonError, FormatError
from ...storage import Storage, read_document
from ..documents.value_name import ValueName
from ..index.layout import ShardEntry
from ..nv_meta import COLUMNS_FOLDER

_FORMAT_VERSION = 1
BY_STATS = "energon stats"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_IN_FOLDER = re.compile(rf"{re.escape(COLUMNS_FOLDER)}/([^/]+)\.json")


class ColumnRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The ``.json`` file of a column.

    Attributes:
        samples: Number of values.
        shards: Digest of the shards, see :func:`shards_digest`.
        missing: The value of samples without one; of floats, NaN also is.
        categories: If not empty, the values are positions in this list of texts.
        unit: Unit of the values: ``"pixels"``, ``"seconds"`` …
        description: One line about the values.
        made_by: Program that wrote the column.
        format_version: Version of this format.
    """

    samples: int
    shards: str
    missing: int | float | None = None
    categories: tuple[str, ...] = ()
    unit: str = ""
    description: str = ""
    made_by: str = ""
    format_version: int = msgspec.field(default=_FORMAT_VERSION)


def check_column_name(name: str, *, at: str) -> None:
    """Raise an error if a column may not have this name; conditions use it as a variable.

    Raises:
        ConfigError: It is not an identifier of ASCII letters, digits and ``_``.

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
    found = (_IN_FOLDER.fullmatch(file.name) for file in storage.list(COLUMNS_FOLDER))
    return sorted(match[1] for match in found if match and _NAME.fullmatch(match[1]))


def shards_digest(shards: Iterable[ShardEntry]) -> str:
    """Return a digest of the names, sizes and numbers of samples of shards, in order, as 32 hex digits."""
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(f"{shard.name}\0{shard.samples}\0{shard.size_bytes}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def read_record(storage: Storage, name: str) -> ColumnRecord:
    """Read the ``.json`` file of a column.

    Raises:
        FormatError: It has something else, or another version.
        StorageError: It cannot be read.
    """
    file = column_path(name, ".json")
    return decode_record(read_document(storage, file), name=name, path=storage.path(file))


def value_of_column(storage: Storage, name: str) -> str:
    """Return the name of the value that a column has, which writes it again; that of the column if it is not known."""
    try:
        record = read_record(storage, name)
    except EnergonError:
        return name
    return record.description if record.made_by.startswith(BY_STATS) and record.description else name


def column_of(storage: Storage, value: ValueName) -> str | None:
    """Return the column that ``energon stats`` wrote with a value, in this version or an earlier one; None if none."""
    named = ((name, value_of_column(storage, name)) for name in column_names(storage))
    return next((name for name, known in named if known in (str(value), value.dotted) and known != name), None)


def decode_record(data: bytes, *, name: str, path: str) -> ColumnRecord:
    """Decode the ``.json`` file of a column.

    Raises:
        FormatError: It has something else, or another version.
    """
    try:
        record = msgspec.json.decode(data, type=ColumnRecord)
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
