"""Detect what a path names: the only place that maps paths to kinds of data.

Detection reads at most the names of files, never their content.
"""

from __future__ import annotations

import os
from typing import Final, Literal, NamedTuple

from ..storage import is_url

Format = Literal["metadataset", "jsonl", "binidx", "parquet", "folder"]
Kind = Literal[
    "tar shards",
    "unprepared tar files",
    "folders of JSONL or Parquet files",
    "JSONL files",
    "token files",
    "Parquet files",
    "folders of media files",
    "metadatasets",
]
"""A kind of data on disk, in the words of ``docs/reference/findings.md``."""


class DataKind(NamedTuple):
    """The kind of the data at a path, by its name alone."""

    format: Format  # name of the format
    suffixes: tuple[str, ...]  # endings of the path; empty for all paths
    title: str  # the file in a sentence: "a JSONL file"
    plural: Kind  # all data of this name; a folder may be of another kind
    is_mix: bool = False  # it lists datasets that are elsewhere
    is_file: bool = False  # it is one file of numbered samples, without `.nv-meta`: no split, columns or configuration


# All formats, in the order in which they are tried.
KINDS: Final = (
    DataKind("metadataset", (".yaml", ".yml"), "a metadataset", "metadatasets", is_mix=True),
    DataKind("jsonl", (".jsonl",), "a JSONL file", "JSONL files", is_file=True),
    DataKind("binidx", (".bin",), "a token file", "token files", is_file=True),
    DataKind("parquet", (".parquet",), "a Parquet file", "Parquet files", is_file=True),
    DataKind("folder", (), "a folder", "tar shards"),
)

_FOLDER = KINDS[-1]
ENDINGS = tuple(ending for each in KINDS for ending in each.suffixes)  # endings of all formats that are files

# Endings of the shards of prepared folders. All shards of a folder have the same one.
SHARD_SUFFIXES: Final = (".tar", ".jsonl", ".parquet")

FILESYSTEM = "filesystem://"  # protocol of auxiliary stores that are folders of plain files

_BIN, _IDX = ".bin", ".idx"


def data_kind(path: str | os.PathLike[str]) -> DataKind:
    """Return the kind of what a path names, by the name alone.

    >>> data_kind("/data/tokens.bin").format, data_kind("/data/coco").format
    ('binidx', 'folder')
    """
    text = os.fspath(path)
    if not text.endswith(ENDINGS):
        return _FOLDER
    return next(kind for kind in KINDS if text.endswith(kind.suffixes))


def is_tar_file(path: str | os.PathLike[str]) -> bool:
    """Return True if a path names a tar file, not a folder; it need not be a shard of a prepared dataset.

    Of a URL the name decides.
    """
    return os.fspath(path).endswith(".tar") and (is_url(path) or os.path.isfile(path))


def files_folder(store: str) -> str | None:
    """Return the folder of an auxiliary store of plain files; None for other stores.

    >>> files_folder("filesystem:///data/images"), files_folder("filesystem+msc://profile/images")
    ('/data/images', 'msc://profile/images')
    >>> files_folder("/data/coco")
    """
    if store.startswith("filesystem+"):
        return store.removeprefix("filesystem+")
    return store.removeprefix(FILESYSTEM) if store.startswith(FILESYSTEM) else None


def data_path(path: str) -> str:
    """Return the path of the data file for a prefix as Megatron-LM writes them; other paths are returned unchanged.

    ``/data/tokens`` names the pair ``/data/tokens.bin`` and ``/data/tokens.idx``. One of the two files is enough, so
    that the error names the missing one. A file or folder with exactly this name has precedence.
    The prefix of a pair on another machine needs the suffix ``.bin``: looking it up would cost a request per dataset.

    Args:
        path: An absolute path, or a URL.
    """
    if path.endswith((*data_kind(path).suffixes, *SHARD_SUFFIXES)) or is_url(path) or os.path.lexists(path):
        return path
    return path + _BIN if os.path.isfile(path + _BIN) or os.path.isfile(path + _IDX) else path
