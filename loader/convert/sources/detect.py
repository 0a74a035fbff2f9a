"""Choose the source of a path: by its kind, if that is named, else by what is there."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...dataset.records import SingleFile
from ...errors import ConfigError, EnergonError, FormatError, SampleError, StorageError
from ...format.dataset_ref import DatasetRef
from ...format.documents import ImportWay, import_way
from ...format.documents.messages import did_you_mean
from ...storage import is_url
from ..annotations.kinds import annotation_kind
from ..file_trees.file_names import BINARY_TABLES, TAR_ENDINGS
from ..file_trees.groupings import GroupBy
from ..file_trees.survey import TreeOptions, UnclearDataError
from ..rows.row import CellRef
from ..tables.columns import Columns, FoundColumn
from ..tables.named_files import EXTENSIONS
from .archives import TarSource
from .coco import CocoSource
from .conversations import ConversationsSource, VqaSource
from .files import FilesSource
from .foreign_chunks import ChunkSource, chunk_kind
from .hugging_face import HuggingFaceSource, is_saved_dataset
from .interleaved_files import InterleavedFilesSource, InterleavedSource
from .source import NumberedSource, Source
from .table_source import ArrowTableSource, TableSource, TextTableSource


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(Columns):
    """Settings of sources; each kind uses those that it has.

    Attributes:
        classes: Subfolders of a folder are labels; None decides by its files.
        splits: Subfolders such as ``train`` are split parts; None decides by their names.
        group_by: What the files of a sample share; None decides by their names.
    """

    classes: bool | None = None
    splits: bool | None = None
    group_by: GroupBy | None = None


def _documents(path: str, options: SourceOptions) -> Source:
    if is_saved_dataset(path) or path.lower().endswith(BINARY_TABLES):
        table = HuggingFaceSource(path=path, columns=options)
        if all(column.role != "document" for column in table.describe()):
            raise ConfigError(
                "expected columns texts and images, lists of texts and of pictures that line up; found"
                f" {', '.join(column.name for column in table.describe())}",
                at=path,
                hint="import other tables without --from interleaved",
            )
        return table
    if os.path.isdir(path) or path.lower().endswith((".zip", *TAR_ENDINGS)):
        return InterleavedFilesSource(path=path, root=options.root, access=options.access)
    return InterleavedSource(path=path, root=options.root, access=options.access)


def _files(path: str, kind: Any, options: SourceOptions, *, takes_all: bool = True) -> FilesSource:
    layout = TreeOptions(classes=options.classes, splits=options.splits, group_by=options.group_by, takes_all=takes_all)
    return FilesSource(path=path, kind=kind, options=layout, columns=options)


KINDS: Mapping[str, Callable[[str, SourceOptions], Source]] = {
    "folder": lambda path, options: _files(path, "folder", options),
    "csv": lambda path, options: TextTableSource(path=path, kind="csv", columns=options),
    "tsv": lambda path, options: TextTableSource(path=path, kind="tsv", columns=options),
    "jsonl": lambda path, options: TextTableSource(path=path, kind="jsonl", columns=options),
    "parquet": lambda path, options: ArrowTableSource(path=path, kind="parquet", columns=options),
    "arrow": lambda path, options: ArrowTableSource(path=path, kind="arrow", columns=options),
    "hf": lambda path, options: HuggingFaceSource(path=path, columns=options),
    "coco": lambda path, options: CocoSource(path=path, root=options.root, access=options.access),
    "conversations": lambda path, options: ConversationsSource(path=path, root=options.root, access=options.access),
    "vqa": lambda path, options: VqaSource(path=path, root=options.root, access=options.access),
    "interleaved": _documents,
    "webdataset": lambda path, _: TarSource(path=path),
    "tar": lambda path, options: _files(path, "tar", options),
    "zip": lambda path, options: _files(path, "zip", options),
    "tokens": lambda path, _: TokenSource(path=path),
    "mds": lambda path, options: ChunkSource(path=path, kind="mds", access=options.access),
    "litdata": lambda path, options: ChunkSource(path=path, kind="litdata", access=options.access),
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
    if not is_url(path) and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise StorageError("expected a file or folder, found a pipe, device or socket", path=path)
    if kind is None:
        files = _files(path, "folder", options, takes_all=False)
        kind = _detect(path, files)
        if kind == "folder":
            return files
        if kind == "zip" and _files(path, kind, options, takes_all=False).survey().kind == "documents":
            kind = "interleaved"
        if kind == "zip" or (kind == "webdataset" and not os.path.isdir(path)):
            return _files(path, kind, options, takes_all=False)
    if kind not in KINDS:
        raise ConfigError(
            f"there is no kind of source {kind!r}{did_you_mean(kind, [*KINDS])}",
            hint=f"name one of {', '.join(KINDS)}",
        )
    return KINDS[kind](path, options)


def ways_to_import(path: str) -> Sequence[ImportWay]:
    """Return how a path of this machine can be imported, as it is decided for a source without options."""
    try:
        source = open_source(path, kind=None, options=SourceOptions())
        if isinstance(source, FilesSource):
            source.survey()
    except UnclearDataError as error:
        sources = error.ways[0].words[1:2] if len(error.ways) == 1 else ()  # an archive, whose contents may be unclear
        packed = [way for source in sources if source != path for way in ways_to_import(source)]
        return packed if packed and not packed[0].words else error.ways
    except (EnergonError, OSError):
        pass  # which the import names
    return [import_way(path)]


def found_columns(sources: Sequence[Source]) -> list[tuple[str, tuple[FoundColumn, ...]]]:
    """Return the columns of each source that is a table, with its path."""
    tables = [source for source in sources if isinstance(source, TableSource)]
    return [(table.path, table.describe()) for table in tables]


def _detect(path: str, files: FilesSource) -> str:
    kind = _KINDS_BY_EXTENSION.get(path.lower().removesuffix(".gz").rpartition(".")[2])
    if is_url(path) and kind is not None:
        return kind
    if not os.path.lexists(path):
        raise StorageError("there is no file or folder of this name", path=path, hint="check the path")
    if os.path.isdir(path):
        return _detect_folder(path, files)
    annotations = annotation_kind(path)
    if annotations is not None:
        return annotations
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


def _detect_folder(path: str, files: FilesSource) -> str:
    chunks = chunk_kind(path)
    if chunks is not None:
        return chunks
    if is_saved_dataset(path):
        return "hf"
    # Files of tables may be named after splits, as those of the Hub.
    kinds = {"tars": "webdataset", "tables": "hf", "documents": "interleaved", "files": "folder"}
    return kinds[files.survey().kind]


_KINDS_BY_EXTENSION = {
    "csv": "csv",
    "tsv": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",  # a list of objects
    **{extension: kind for kind, extensions in EXTENSIONS.items() for extension in extensions},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSource(NumberedSource):
    """The sequences of a token file, each an array in a part ``npy``.

    Attributes:
        path: The ``.bin`` file, or both files without their extension.
    """

    path: str
    kind: str = "tokens"
    noun: ClassVar[str] = "sequence"

    def open_cells(self) -> _TokenReader:
        """Open the files."""
        return _TokenReader(self.path)


class _TokenReader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._file = SingleFile(DatasetRef(path))

    def __len__(self) -> int:
        return len(self._file)

    def part_names(self) -> list[str]:
        return ["npy"]

    def read(self, cell: CellRef) -> bytes:
        try:
            parts = self._file.read_parts(cell.row)
        except FormatError as error:
            raise SampleError(error.message, source=f"{self._path}, sequence {cell.row}") from error
        data = io.BytesIO()
        np.save(data, np.asarray(next(iter(parts.values()))), allow_pickle=False)
        return data.getvalue()

    def close(self) -> None:
        self._file.close()
