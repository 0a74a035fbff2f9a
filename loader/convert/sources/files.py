"""The files of a folder, a zip or a tar: files that belong together are the parts of a sample."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from ...collector import paused_collection
from ...engine import meanings
from ...errors import ConfigError, SampleError
from ...storage import is_url
from ...storage.temporary_files import scratch_folder
from ..file_trees.tree import UNREADABLE, FileTree, FolderTree, TarTree, ZipTree, open_zip
from ..file_trees.url_tree import UrlTree
from ..hypotheses.decide import decide
from ..layouts.hypothesis import Hypothesis, TreeLayout
from ..layouts.survey import Survey
from ..layouts.tree_files import TreeFiles
from ..rows.row import CellReader, CellRef, Row
from ..tables.source_options import SourceOptions
from .archives import plain_tar, tar_files, webdataset_rows
from .source import ImportSource, Listing
from .tree_rows import TreeRows
from .tree_tables import TreeReader


@dataclass(slots=True, kw_only=True, eq=False)
class FilesSource(ImportSource):
    """The files of a folder and the folders below it, or those in an archive.

    Files whose names differ only in their extension are a sample: ``a/b.jpg`` and ``a/b.txt`` are the parts ``jpg``
    and ``txt`` of ``a/b``. ``b.jpg.txt`` belongs to ``b.jpg``, and ``b.seg.png`` to ``b`` if there is one.
    :func:`find_grouping` finds what else the files of a sample may share.

    Tables whose rows name the files, such as ``metadata.jsonl``, have the samples instead. Folders of pictures may be
    classes, ``cats/1.jpg`` and ``dogs/2.jpg``, which become the parts ``cls`` (the number of the class) and ``json``
    (its ``label_name``). Outer folders may be split parts: ``train/cats/1.jpg``.

    Attributes:
        path: The folder or archive; also a folder of tars, which are read one by one.
        kind: ``"webdataset"`` is a tar whose members are grouped as webdataset does, unless they have another layout.
        takes_all: Every file with an extension is a part, except tables and archives.
    """

    path: str
    kind: Literal["folder", "zip", "tar", "webdataset"] = "folder"
    options: SourceOptions = field(default_factory=SourceOptions)
    takes_all: bool = False
    hypotheses: Sequence[Hypothesis] = field(default=(), init=False, repr=False)
    _survey: TreeLayout | None = field(default=None, init=False, repr=False)
    _files: TreeFiles | None = field(default=None, init=False, repr=False)  # of the survey

    def rows(self, listing: Listing) -> Iterator[Row]:
        count, option = 0, self.options.option_of_rows
        # Each tree has a layout of its own.
        for files, survey in self._surveyed(listing.scratch):
            if option and not survey.has_rows:
                segments = ", and a column such as offset, start or onset" if self.options.segments else ""
                raise ConfigError(
                    f"{option}: the samples are not rows of a table; expected one with names of files{segments}",
                    at=files.tree.path,
                    hint=f"name the table itself, or leave {option.partition(' ')[0]} out",
                )
            if self.kind == "webdataset" and isinstance(files.tree, TarTree):
                rows = webdataset_rows(files.tree.path, files.tree.plain, listing.account)
            else:
                # Of several tars, the numbers of classes would differ.
                is_only = self.options.is_only_table and (self.kind == "folder" or not os.path.isdir(self.path))
                rows = TreeRows(files, survey, listing, replace(self.options, is_only_table=is_only)).rows()
            for row in rows:
                thing = row.thing or survey.thing_of(row.key)
                yield msgspec.structs.replace(row, thing=thing) if thing else row
                count += 1
        if not count:
            # Name a file that was left out, which may be the reason.
            left = next((entry for entry in listing.account.left_out if entry.unit == "files"), None)
            example = f"; {left.example} is {meanings()[left.reason]}" if left else ""
            raise ConfigError(
                f"there are no files that have an extension and can be parts of samples{example}",
                at=self.path,
                hint="name the folder of the files",
            )

    def survey(self) -> TreeLayout:
        """Return what the samples are; for several tars, the samples of the last."""
        if self._survey is None:
            with scratch_folder() as scratch:
                for files, _ in self._surveyed(scratch):
                    self._files = files
        return self._survey or TreeLayout()

    def open_cells(self) -> CellReader:
        return ZipCells(self.path) if self.kind == "zip" else CellReader()

    def _surveyed(self, scratch: str) -> Iterator[tuple[TreeFiles, TreeLayout]]:
        """Yield each tree with its layout. A folder is surveyed once; each tar of a folder may differ."""
        is_known = self._survey is not None and self.kind == "folder"
        known, self._files = (self._files if is_known else None), None  # the names of millions of files are not kept
        trees = open_trees(self.path, self.kind, scratch, self.options) if known is None else ()
        for files in (known,) if known is not None else map(TreeFiles, trees):
            if not is_known:
                self._decide(files, scratch)
            yield files, self._survey or TreeLayout()

    def _decide(self, files: TreeFiles, scratch: str) -> None:
        is_webdataset = self.kind == "webdataset"
        with paused_collection():
            survey = Survey(files, self.options, TreeReader(files, self.options, scratch))
            self._survey, self.hypotheses = decide(survey, takes_all=self.takes_all, is_webdataset=is_webdataset)
        # A tar with another layout is read as a tree of files.
        if self.kind == "webdataset" and not (self._survey.is_plain and self.options.group_by is None):
            self.kind = "tar"

    def __getstate__(self) -> tuple[object, ...]:
        # What open_cells() needs; workers may run in other folders.
        return self.path if is_url(self.path) else os.path.abspath(self.path), self.kind

    def __setstate__(self, state: tuple[str, Literal["folder", "zip", "tar", "webdataset"]]) -> None:
        self.path, self.kind = state


def open_trees(path: str, kind: str, scratch: str, options: SourceOptions) -> Iterator[FileTree]:
    """Yield the folder or archive at a path or URL, or each tar of a folder; see :class:`FilesSource`.

    Args:
        kind: ``"folder"``, ``"zip"``, or a kind of tars.
        scratch: A folder for tars that have to be decompressed.
        options: Which files links and tables may lead to.
    """
    if kind == "folder" and is_url(path):
        yield UrlTree(path, options.tell)
    elif kind == "folder":
        yield FolderTree(path, options.access, root=options.root)
    elif kind == "zip":
        yield ZipTree(path)
    else:
        for file in tar_files(path):
            yield TarTree(file, plain_tar(file, scratch))


class ZipCells(CellReader):
    """Reads the members of a zip file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open_zip(path)
        self._infos = self._file.infolist()

    def read(self, cell: CellRef) -> bytes:
        info = self._infos[cell.row]
        try:
            return self._file.read(info)
        except UNREADABLE as error:
            raise SampleError(f"cannot unpack {info.filename}: {error}", part=cell.column, source=self._path) from error

    def close(self) -> None:
        self._file.close()
