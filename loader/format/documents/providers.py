"""Detect the format of a dataset by its path: the only place that maps paths to formats.

Detection reads at most the names of files, never their content. A provider with a lower priority is asked first: 0 for
documents that name their format, 100 for single files, 200 for folders.
"""

from __future__ import annotations

import os
from typing import Final, Literal, NamedTuple

from ...storage import is_url

Format = Literal["metadataset", "jsonl", "binidx", "parquet", "folder"]


class Provider(NamedTuple):
    """A format, and the file names that it has.

    Attributes:
        format: Name of the format.
        priority: Providers of lower numbers are asked first.
        suffixes: Endings of the path; empty for all paths.
        title: The file in a sentence: "a JSONL file".
    """

    format: Format
    priority: int
    suffixes: tuple[str, ...]
    title: str


PROVIDERS: Final = (
    Provider("metadataset", 0, (".yaml", ".yml"), "a metadataset"),
    Provider("jsonl", 100, (".jsonl",), "a JSONL file"),
    Provider("binidx", 100, (".bin",), "a token file"),
    Provider("parquet", 100, (".parquet",), "a Parquet file"),
    Provider("folder", 200, (), "a folder"),
)
"""All formats, in the order in which they are tried."""

_FOLDER = PROVIDERS[-1]
ENDINGS = tuple(ending for one in PROVIDERS for ending in one.suffixes)
"""Endings of all formats that are files."""

RECORD_FORMATS: Final = frozenset({"jsonl", "binidx", "parquet"})
"""Formats of single files whose samples are numbered and have no names."""

SHARD_SUFFIXES: Final = (".tar", ".jsonl", ".parquet")
"""Endings of the shards of prepared folders. All shards of a folder have the same one."""

FILESYSTEM = "filesystem://"
"""Protocol of auxiliary stores that are folders of plain files."""

_BIN, _IDX = ".bin", ".idx"


def provider_of(path: str | os.PathLike[str]) -> Provider:
    """Return the provider of a path.

    >>> provider_of("/data/tokens.bin").format, provider_of("/data/coco").format
    ('binidx', 'folder')
    """
    text = os.fspath(path)
    if not text.endswith(ENDINGS):
        return _FOLDER
    return next(one for one in PROVIDERS if text.endswith(one.suffixes))


def format_of(path: str | os.PathLike[str]) -> Format:
    """Return the format of what a path names, by the name alone."""
    return provider_of(path).format


def is_metadataset(path: str | os.PathLike[str]) -> bool:
    """Return True if a path names a metadataset: a YAML file.

    >>> is_metadataset("mix.yaml"), is_metadataset("./coco")
    (True, False)
    """
    return format_of(path) == "metadataset"


def is_jsonl(path: str | os.PathLike[str]) -> bool:
    """Return True if a path names a JSONL file."""
    return format_of(path) == "jsonl"


def is_record_file(path: str | os.PathLike[str]) -> bool:
    """Return True if a path names a single file of numbered samples: JSONL, tokens or Parquet.

    >>> is_record_file("texts.jsonl"), is_record_file("tokens.bin"), is_record_file("mix.yaml")
    (True, True, False)
    """
    return format_of(path) in RECORD_FORMATS


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


def record_format(shard: str) -> Format | None:
    """Return the format of a shard in a prepared folder of files of numbered samples; None for a tar file.

    >>> record_format("part-0.parquet"), record_format("0.tar")
    ('parquet', None)
    """
    return format_of(shard) if shard.endswith(SHARD_SUFFIXES[1:]) else None


def data_path(path: str) -> str:
    """Return the path of the data file for a prefix as Megatron-LM writes them; other paths are returned unchanged.

    ``/data/tokens`` names the pair ``/data/tokens.bin`` and ``/data/tokens.idx``. One of the two files is enough, so
    that the error names the missing one. A file or folder with exactly this name has precedence.
    The prefix of a pair on another machine needs the suffix ``.bin``: looking it up would cost a request per dataset.

    Args:
        path: An absolute path, or a URL.
    """
    if path.endswith((*provider_of(path).suffixes, *SHARD_SUFFIXES)) or is_url(path) or os.path.lexists(path):
        return path
    return path + _BIN if os.path.isfile(path + _BIN) or os.path.isfile(path + _IDX) else path
