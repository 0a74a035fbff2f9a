"""Choose the source of a path: by its kind, if that is named, else by what is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...dataset.records import SingleFile
from ...errors import ConfigError, EnergonError, FormatError, SampleError, StorageError
from ...extensions import extension_names, load_extension
from ...format.dataset_ref import DatasetRef
from ...format.documents import ImportWay, import_way
from ...format.documents.messages import did_you_mean
from ...parts.other_file import refuse_other_file
from ...storage import is_url, open_storage
from ..annotations.json_elements import FIELDS, lists_in
from ..annotations.kinds import annotation_kind
from ..file_trees.file_names import BINARY_TABLES, TAR_ENDINGS
from ..hypotheses.decide import UnclearDataError as UnclearDataError  # noqa: PLC0414 - the stub of the package lists it
from ..layouts.hypothesis import Hypothesis as Hypothesis  # noqa: PLC0414 - the stub of the package lists it
from ..rows.row import CellRef
from ..tables.columns import FoundColumn
from ..tables.part_values import npy_bytes
from ..tables.source_options import SourceOptions as SourceOptions  # noqa: PLC0414 - the stub of the package lists it
from ..tables.table_files import EXTENSIONS
from .archives import TarSource
from .coco import CocoSource
from .conversations import ConversationsSource
from .files import FilesSource
from .foreign_chunks import ChunkSource, chunk_kind
from .hugging_face import HuggingFaceSource, is_saved_dataset
from .interleaved_files import InterleavedFilesSource, InterleavedSource
from .lone_annotations import open_xml, refuse_of_one_picture
from .source import ImportSource, NumberedReader, NumberedSource
from .table_source import ArrowTableSource, TableSource, TextTableSource
from .vqa import VqaSource


def _documents(path: str, options: SourceOptions) -> ImportSource:
    if is_saved_dataset(path) or path.lower().endswith(BINARY_TABLES):
        # A table has documents only if its columns line up.
        table = HuggingFaceSource(path=path, columns=options)
        if all(column.role != "document" for column in table.describe()):
            raise ConfigError(
                "expected columns texts and images, lists of texts and of pictures that line up; found"
                f" {', '.join(column.name for column in table.describe())}",
                at=path,
                hint="import other tables without --from interleaved",
            )
        return table
    has_files = os.path.isdir(path) or path.lower().endswith((".zip", *TAR_ENDINGS))
    source = InterleavedFilesSource if has_files else InterleavedSource
    return source(path=path, root=options.root, access=options.access)


def _files(path: str, kind: Any, options: SourceOptions, *, takes_all: bool = True) -> FilesSource:
    return FilesSource(path=path, kind=kind, options=options, takes_all=takes_all)


class SourceKind(NamedTuple):
    """A kind of source.

    Attributes:
        endings: Endings of files of this kind; those with others are recognised by their contents, or by ``--from``.
        is_table: The files may be compressed by gzip.
        reads_urls: The source may be at a URL.
    """

    open: Callable[[str, SourceOptions], ImportSource]
    endings: tuple[str, ...] = ()
    is_table: bool = False
    reads_urls: bool = False

    def has(self, path: str) -> bool:
        """Return True if a file is of this kind by its name."""
        name = path.lower()
        return (name.removesuffix(".gz") if self.is_table else name).endswith(self.endings)


def _text(kind: Any, *endings: str) -> SourceKind:
    return SourceKind(lambda path, options: TextTableSource(path=path, kind=kind, columns=options), endings, True, True)


def _lists(path: str, options: SourceOptions) -> ImportSource:
    if path.lower().removesuffix(".gz").endswith(".xml"):
        return open_xml(path, options)
    # A document may have its rows in one list of any name.
    lists = lists_in(path) if path.lower().endswith((".json", ".json.gz")) and not is_url(path) else []
    inside = lists[0] if len(lists) == 1 and lists[0] not in ("", FIELDS) else "data"
    return TextTableSource(path=path, kind="jsonl", columns=options, inside=inside)


def _arrow(kind: Any) -> SourceKind:
    endings = tuple(f".{extension}" for extension in EXTENSIONS[kind])
    return SourceKind(
        lambda path, options: ArrowTableSource(path=path, kind=kind, columns=options), endings, True, True
    )


def _annotations(source: type[CocoSource | ConversationsSource | VqaSource]) -> SourceKind:
    return SourceKind(lambda path, options: source(path=path, root=options.root, access=options.access))


def _chunks(kind: Any) -> SourceKind:
    return SourceKind(lambda path, options: ChunkSource(path=path, kind=kind, access=options.access))


KINDS: Mapping[str, SourceKind] = {
    "folder": SourceKind(lambda path, options: _files(path, "folder", options), reads_urls=True),
    "csv": _text("csv", ".csv"),
    "tsv": _text("tsv", ".tsv"),
    "jsonl": SourceKind(_lists, (".jsonl", ".ndjson", ".json", ".xml"), True, True),
    "parquet": _arrow("parquet"),
    "arrow": _arrow("arrow"),
    "hf": SourceKind(lambda path, options: HuggingFaceSource(path=path, columns=options), reads_urls=True),
    "coco": _annotations(CocoSource),
    "conversations": _annotations(ConversationsSource),
    "vqa": _annotations(VqaSource),
    "interleaved": SourceKind(_documents),
    "webdataset": SourceKind(lambda path, _: TarSource(path=path), TAR_ENDINGS, reads_urls=True),
    "tar": SourceKind(lambda path, options: _files(path, "tar", options), reads_urls=True),
    "zip": SourceKind(lambda path, options: _files(path, "zip", options), (".zip",)),
    "tokens": SourceKind(lambda path, _: TokenSource(path=path), (".bin", ".idx"), reads_urls=True),
    "mds": _chunks("mds"),
    "litdata": _chunks("litdata"),
}
"""Kinds of sources by their names, as ``--from`` takes them. Installed packages add others."""


def source_kind(name: str) -> SourceKind:
    """Return a kind of source: one of this library, or of an installed package.

    Raises:
        ConfigError: There is no such kind, or the package is damaged.
    """
    kind: SourceKind | None = KINDS.get(name) or load_extension("sources", name)
    if kind is None:
        kinds = _kind_names()
        raise ConfigError(
            f"there is no kind of source {name!r}{did_you_mean(name, kinds)}", hint=f"name one of {', '.join(kinds)}"
        )
    return kind


def _kind_names() -> list[str]:
    return [*KINDS, *extension_names("sources")]


_WITH_TABLES = ("folder", "tar", "zip", "hf")


def open_sources(paths: Sequence[str], *, kind: str | None, options: SourceOptions) -> tuple[ImportSource, ...]:
    """Open sources.

    Args:
        paths: Their paths or URLs.
        kind: Their kind; None detects it.
        options: Settings.

    Raises:
        ConfigError: The kind is unknown or cannot be detected, or an option does not fit it.
        StorageError: A path does not exist.
    """
    options = replace(options, is_only_table=len(paths) == 1)
    return tuple(open_source(path, kind=kind, options=options) for path in paths)


def open_source(path: str, *, kind: str | None, options: SourceOptions) -> ImportSource:
    """Open a source; see :func:`open_sources`."""
    if not is_url(path) and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise StorageError("expected a file or folder, found a pipe, device or socket", path=path)
    compared: Sequence[Hypothesis] = ()
    if kind is None:
        files = _files(path, "folder", options, takes_all=False)
        kind, compared = _detect(path, files), files.hypotheses
        if kind == "folder":
            return files
        _check_place(path, kind)
        if kind == "zip" and _files(path, kind, options, takes_all=False).survey().kind == "documents":
            kind = "interleaved"
        # What is detected takes the files of an archive by their layout; a kind that is named takes all.
        is_folder = not path.endswith(TAR_ENDINGS) if is_url(path) else os.path.isdir(path)
        if kind == "zip" or (kind == "webdataset" and not is_folder):
            return _files(path, kind, options, takes_all=False)
    _check_place(path, kind)
    if options.option_of_rows and not (source_kind(kind).is_table or kind in _WITH_TABLES):
        raise ConfigError(f"{options.option_of_rows}: a source of the kind {kind!r} has no columns", at=path)
    source = source_kind(kind).open(path, options)
    object.__setattr__(source, "hypotheses", compared)  # also of a frozen class
    return source


def _check_place(path: str, kind: str) -> None:
    if is_url(path) and not source_kind(kind).reads_urls:
        kinds = ", ".join(name for name in _kind_names() if source_kind(name).reads_urls)
        raise ConfigError(
            f"a source of the kind {kind!r} is read from a disk; at URLs, these are read: {kinds}",
            at=path,
            hint="copy it to a folder of this machine first",
        )


def ways_to_import(path: str) -> Sequence[ImportWay]:
    """Return how a path of this machine can be imported, as it is decided for a source without options."""
    try:
        source = open_source(path, kind=None, options=SourceOptions())
        if isinstance(source, FilesSource):
            source.survey()
    except UnclearDataError as error:
        sources = error.ways[0].words[1:2] if len(error.ways) == 1 else ()  # an archive, whose contents may be unclear
        # Of an archive, the ways inside of it are meant.
        packed = [way for source in sources if source != path for way in ways_to_import(source)]
        return packed if packed and not packed[0].is_import else error.ways
    except (EnergonError, OSError):
        pass  # which the import names
    return [import_way(path)]


def found_columns(sources: Sequence[ImportSource]) -> list[tuple[str, tuple[FoundColumn, ...]]]:
    """Return the columns of each source that is a table, with its path."""
    tables = [source for source in sources if isinstance(source, TableSource)]
    return [(table.path, table.describe()) for table in tables]


def compared_hypotheses(sources: Sequence[ImportSource]) -> list[tuple[str, Sequence[Hypothesis]]]:
    """Return the ways to make samples that were compared for each source that is a tree of files, with its path."""
    return [(source.path, compared) for source in sources if (compared := getattr(source, "hypotheses", ()))]


def _detect(path: str, files: FilesSource) -> str:
    # The ending shows the kind of most files.
    kind = next((name for name, known in KINDS.items() if known.has(path)), None)
    if kind is None and (is_url(path) or os.path.isfile(path)):
        kind = next((name for name in extension_names("sources") if source_kind(name).has(path)), None)
    # Files at URLs are not looked into.
    if is_url(path) and kind is not None:
        return kind
    is_there = next(iter(open_storage(path).list()), None) is not None if is_url(path) else os.path.lexists(path)
    if not is_there:
        hint = f"check the {'URL' if is_url(path) else 'path'}"
        raise StorageError("there is no file or folder of this name", path=path, hint=hint)
    # A folder has chunks or a saved dataset, or what the names of its files say.
    if is_url(path) or os.path.isdir(path):
        of_library = chunk_kind(path) or ("hf" if is_saved_dataset(path) else None)
        return of_library or _KINDS_OF_SURVEYS[files.survey().kind]
    refuse_of_one_picture(path)
    # A JSON file may have annotations instead of rows.
    kind = annotation_kind(path) or kind
    if kind is None:
        refuse_other_file(path, "source")
        raise ConfigError(
            "this is no source that can be imported",
            at=path,
            hint=f"name its kind with --from: {', '.join(_kind_names())}",
        )
    return kind


_KINDS_OF_SURVEYS = {
    "tars": "webdataset",
    "tables": "hf",
    "documents": "interleaved",
    "files": "folder",
    "members": "folder",
}
"""Kind of the samples of a folder → kind of the source. Tables may be named after splits, as those of the Hub."""


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
        return _TokenReader(self.path)


class _TokenReader(NumberedReader):
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
        return npy_bytes(np.asarray(next(iter(parts.values()))))

    def close(self) -> None:
        self._file.close()
