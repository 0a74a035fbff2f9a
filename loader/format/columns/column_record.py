"""The records of columns, and the names of their files."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable

import msgspec

from ...errors import ConfigError, EnergonError, FormatError
from ...storage import LocalStorage, Storage, read_document
from ..documents.value_name import ValueName
from ..index.layout import ShardEntry
from ..nv_meta import COLUMNS_FOLDER

_FORMAT_VERSION = 1
DATA_EXTENSIONS = (".npy", ".valid.npy", ".utf8")  # of the files that a column may have next to its record
BY_STATS = "energon stats"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
NEW = ".new"  # between the name of a column and the extension: a file that replaces the one without it


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
    return any(storage.exists(column_path(name, end)) for end in (".json", f"{NEW}.json", ".json"))


def shards_digest(shards: Iterable[ShardEntry]) -> str:
    """Return a digest of the names, sizes and numbers of samples of shards, in order, as 32 hex digits."""
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(f"{shard.name}\0{shard.samples}\0{shard.size_bytes}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def read_record(storage: Storage, name: str) -> ColumnRecord:
    """Read the ``.json`` file of a column."""
    file = current_file(storage, name, ".json")
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


def current_file(storage: Storage, name: str, extension: str) -> str:
    """Return the file of a column: once the record of an earlier column is gone, the file that replaces it."""
    new = column_path(name, f"{NEW}{extension}")
    is_new = isinstance(storage, LocalStorage) and not storage.exists(column_path(name, ".json"))
    return new if is_new and storage.exists(new) else column_path(name, extension)


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
