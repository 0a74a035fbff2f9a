"""Choose the source of a path: by its kind, if that is named, else by what is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...errors import ConfigError, StorageError
from ...format.documents.messages import did_you_mean
from ...storage import is_url
from ..tables.columns import Columns, FoundColumn
from ..tables.hugging_face import is_saved_dataset
from ..tables.table_files import EXTENSIONS
from .archives import TAR_ENDINGS, TarSource, ZipSource
from .arrow_table import ArrowTableSource
from .folder import FolderSource
from .foreign_chunks import ChunkSource, chunk_kind
from .hugging_face import HuggingFaceSource
from .source import Source
from .text_table import TextTableSource
from .token_files import TokenSource

__all__ = ["KINDS", "SourceOptions", "found_columns", "open_source", "open_sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Settings of sources; each kind uses those that it has.

    Attributes:
        parts: Part name → column of a table.
        key: Column with the keys.
        split: Column with the split parts.
        root: Folder that paths in a table or document start from; None for the folder of the file.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    split: str | None = None
    root: str | None = None


def _folder(path: str, options: SourceOptions) -> Source:  # noqa: ARG001 - as other kinds
    return FolderSource(path=path)


def _webdataset(path: str, options: SourceOptions) -> Source:  # noqa: ARG001
    return TarSource(path=path)


def _tar(path: str, options: SourceOptions) -> Source:  # noqa: ARG001
    return TarSource(path=path, kind="tar")


def _zip(path: str, options: SourceOptions) -> Source:  # noqa: ARG001
    return ZipSource(path=path)


def _tokens(path: str, options: SourceOptions) -> Source:  # noqa: ARG001
    return TokenSource(path=path)


def _mds(path: str, options: SourceOptions) -> Source:  # noqa: ARG001
    return ChunkSource(path=path, kind="mds")


def _litdata(path: str, options: SourceOptions) -> Source:  # noqa: ARG001
    return ChunkSource(path=path, kind="litdata")


def _columns(options: SourceOptions) -> Columns:
    return Columns(parts=options.parts, key=options.key, split=options.split, root=options.root)


def _text_table(kind: Literal["csv", "tsv", "jsonl"]) -> Callable[[str, SourceOptions], Source]:
    return lambda path, options: TextTableSource(path=path, kind=kind, columns=_columns(options))


def _arrow_table(kind: Literal["parquet", "arrow"]) -> Callable[[str, SourceOptions], Source]:
    return lambda path, options: ArrowTableSource(path=path, kind=kind, columns=_columns(options))


def _hugging_face(path: str, options: SourceOptions) -> Source:
    return HuggingFaceSource(path=path, columns=_columns(options))


KINDS: Mapping[str, Callable[[str, SourceOptions], Source]] = {
    "folder": _folder,
    "webdataset": _webdataset,
    "tar": _tar,
    "zip": _zip,
    "tokens": _tokens,
    "mds": _mds,
    "litdata": _litdata,
    "csv": _text_table("csv"),
    "tsv": _text_table("tsv"),
    "jsonl": _text_table("jsonl"),
    "parquet": _arrow_table("parquet"),
    "arrow": _arrow_table("arrow"),
    "hf": _hugging_face,
}
"""Kind of a source, as ``--from`` takes it → a function that opens it."""


def open_sources(paths: Sequence[str], *, kind: str | None, options: SourceOptions) -> tuple[Source, ...]:
    """Open sources.

    Args:
        paths: Their paths or URLs.
        kind: Their kind; None detects it.
        options: Settings.

    Raises:
        ConfigError: The kind is unknown or cannot be detected, or an option does not fit it.
        StorageError: A path does not exist.
    """
    return tuple(open_source(path, kind=kind, options=options) for path in paths)


def open_source(path: str, *, kind: str | None, options: SourceOptions) -> Source:
    """Open a source; see :func:`open_sources`."""
    if kind is None:
        kind = _detect(path)
    if kind not in KINDS:
        raise ConfigError(
            f"there is no kind of source {kind!r}{did_you_mean(kind, [*KINDS])}",
            hint=f"name one of {', '.join(KINDS)}",
        )
    return KINDS[kind](path, options)


def found_columns(sources: Sequence[Source]) -> list[tuple[str, tuple[FoundColumn, ...]]]:
    """Return the columns of each source that is a table, with its path."""
    tables = [s for s in sources if isinstance(s, TextTableSource | ArrowTableSource | HuggingFaceSource)]
    return [(table.path, table.describe()) for table in tables]


def _detect(path: str) -> str:
    kind = _KINDS_BY_EXTENSION.get(path.lower().removesuffix(".gz").rpartition(".")[2])
    if is_url(path) and kind is not None:
        return kind
    if not os.path.lexists(path):
        raise StorageError("there is no file or folder of this name", path=path, hint="check the path")
    if os.path.isdir(path):
        return _detect_folder(path)
    name = path.lower()
    if name.endswith(".zip"):
        return "zip"
    if name.endswith(TAR_ENDINGS):
        return "webdataset"
    if name.endswith((".bin", ".idx")):
        return "tokens"
    if kind is not None:
        return kind
    raise ConfigError(
        "this is no source that can be imported", at=path, hint=f"name its kind with --from: {', '.join(KINDS)}"
    )


def _detect_folder(path: str) -> str:
    chunks = chunk_kind(path)
    if chunks is not None:
        return chunks
    if is_saved_dataset(path):
        return "hf"
    names = [name.lower() for _, _, files in os.walk(path) for name in files if not name.startswith(".")]
    tars = sum(name.endswith(TAR_ENDINGS) for name in names)
    notes = sum(name.endswith((".json", ".parquet", ".idx", ".txt", ".md", ".csv")) for name in names)
    if tars and tars + notes == len(names):
        return "webdataset"
    extensions = {name.rpartition(".")[2] for name in names if not name.startswith("_")} - _ABOUT_TABLES
    is_table = any(extensions and extensions <= set(known) for known in EXTENSIONS.values())
    return "hf" if is_table else "folder"  # files may be named after splits, as those of the Hub


_ABOUT_TABLES = frozenset({"json", "md"})
_KINDS_BY_EXTENSION = {
    "csv": "csv",
    "tsv": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    **{extension: kind for kind, extensions in EXTENSIONS.items() for extension in extensions},
}
