"""The base class of sources: a source lists its samples as rows, and reads what only it can read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from ...engine import Account
from ...errors import SampleError
from ...parts.kinds import kind_of_name, usual_extension
from ...storage import is_url
from ..annotations.json_elements import Element, fault_row, read_elements
from ..layouts.hypothesis import Hypothesis
from ..rows.file_access import FileAccess
from ..rows.row import CellReader, CellRef, FileRef, PartRef, Row, ValueRef
from ..tables.inline_data import inline_contents, is_inline
from ..tables.named_files import NamedFiles, is_link, path_of_url
from ..tables.split_names import split_of_file
from .table_files import files_near

_DATA = "data:"

_EXTENSIONS = {"image": "jpg", "video": "mp4", "audio": "wav"}  # of media whose path has none


def picture_extension(path: str) -> str:
    """Return the extension of a picture as the name of its part; ``jpg`` if it has none of a picture.

    >>> picture_extension("a/b.PNG"), picture_extension("https://x.org/b.webp?size=2"), picture_extension("b")
    ('png', 'webp', 'jpg')
    """
    return media_extension(path, "image")


def media_extension(path: str, kind: str) -> str:
    """Return the extension of a picture, video or sound as the name of its part.

    Args:
        path: Its path, URL, ``data:`` URL, or contents in base64.
        kind: ``image``, ``video`` or ``audio``; a path with the extension of another kind gets a usual one of this.

    >>> media_extension("a/b.MOV", "video"), media_extension("clip", "video"), media_extension("a.jpg", "audio")
    ('mov', 'mp4', 'wav')
    """
    # The extension is in the type of a `data:` URL, in the contents, or at the end of the path.
    if path.startswith(_DATA):
        extension = path[len(_DATA) :].partition(",")[0].partition(";")[0].rpartition("/")[2].partition("+")[0]
    elif is_inline(path):
        extension = usual_extension(inline_contents(path) or b"") or ""
    else:
        extension = (path_of_url(path) if is_link(path) else path).rpartition("/")[2].rpartition(".")[2]
    extension = extension.lower()
    return extension if kind_of_name(extension) == kind else _EXTENSIONS[kind]


def picture_ref(files: NamedFiles, path: str) -> PartRef:
    """Return the reference to a picture at a path or URL, or in a ``data:`` URL or base64."""
    contents = inline_contents(path)
    if contents is not None:
        return ValueRef(contents)
    if not path.strip():
        raise SampleError("the path of a picture is empty")
    return files.ref(path, "", named_by_contents=False)


class ListedPictures:
    """The pictures on this machine that files of annotations list."""

    def __init__(self) -> None:
        self._names: defaultdict[str, set[str]] = defaultdict(set)  # folder → names of files

    def add(self, parts: Iterable[PartRef]) -> None:
        paths = (os.fsdecode(part.path) for part in parts if isinstance(part, FileRef))
        for folder, name in (os.path.split(path) for path in paths if not is_url(path)):
            self._names[folder].add(name)

    def leave_others(self, account: Account) -> None:
        """Count the listed pictures, and leave out those next to them that no file lists."""
        for folder, names in self._names.items():
            try:
                # Pictures that no annotation names would be lost unnoticed.
                left = (name for name in os.listdir(folder) if name not in names and not name.startswith("."))
                others = sorted(name for name in left if kind_of_name(name) == "image")
            except OSError:
                continue  # the folder is missing, and so are its pictures
            account.take("files", len(names))
            account.see("files", len(others))
            for name in others:
                path = os.path.join(folder, name)
                account.leave("files", "L111", path, size_bytes=os.stat(path).st_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One listing of sources.

    Attributes:
        shuffled: The rows will be read in any order. A source that reads them fast in its own order alone, such as a
            Parquet file, then yields their values instead of cells.
        scratch: A folder for files that rows reference, such as decompressed archives; it is removed at the end.
        account: The fate of each file and member. A source counts what it sees, what goes into rows, and what it leaves
            out; the caller counts the rows.
        pictures: The pictures that annotations name; the caller accounts for them after all sources.
    """

    shuffled: bool = False
    scratch: str = ""
    account: Account = field(default_factory=Account)
    notes: list[str] = field(default_factory=list)
    pictures: ListedPictures = field(default_factory=ListedPictures)


class NumberedReader(CellReader, ABC):
    """An open source whose samples have numbers and the same parts."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples."""

    @abstractmethod
    def part_names(self) -> Sequence[str]:
        """Return the names of the parts of each sample, which are its columns."""


class ImportSource(ABC):
    """A source of samples; it pickles, since workers read its cells.

    Attributes:
        kind: Name of the format, as ``--from`` takes it.
        hypotheses: The ways to make samples of a tree that were compared, the one that is taken first; workers and
            sources without a tree have none.
    """

    __slots__ = ("hypotheses",)
    kind: str
    path: str
    hypotheses: Sequence[Hypothesis]

    @abstractmethod
    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the samples, in an order that depends on the source alone."""

    def open_cells(self) -> CellReader:
        """Open the source for :class:`CellRef`; called in each worker once."""
        return CellReader()


class NumberedSource(ImportSource):
    """Samples with numbers and the same parts: all that such a format needs is its reader."""

    __slots__ = ()
    noun: ClassVar[str] = "sample"

    @abstractmethod
    def open_cells(self) -> NumberedReader:
        """Open the source, in each worker once."""

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - samples are read in any order
        with closing(self.open_cells()) as reader:
            count = len(reader)
            names = reader.part_names() if count else ()
        # Keys have as many digits as the last one, so that they sort as numbers.
        digits = len(str(max(0, count - 1)))
        for sample in range(count):
            parts: dict[str, PartRef] = {name: CellRef(sample, name) for name in names}
            yield Row(key=f"{sample:0{digits}d}", parts=parts, origin=f"{self.path}, {self.noun} {sample}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationSource(ImportSource):
    """A file of JSON whose elements name pictures or other media.

    Attributes:
        root: Folder that paths start from; None for the folder of the file.
        access: Decides which files paths may name.
        files: The files of the tree that the file is in; None for the files near it.
    """

    path: str
    root: str | None = None
    files: NamedFiles | None = field(default=None, repr=False, compare=False)
    access: FileAccess = field(default_factory=FileAccess, repr=False, compare=False)

    def named_files(self, listing: Listing) -> NamedFiles:
        """Return the files that the elements may name."""
        return self.files or files_near(self.path, self.access, self.root, is_of_media=True, notes=listing.notes)

    def element_rows(self, make: Callable[[int, Element], Row], *, inside: Sequence[str] = ("data",)) -> Iterator[Row]:
        """Yield the row of each element, in the split part that the name of the file has.

        Args:
            make: Returns the row of an element and its number; it may raise a ``SampleError``, which fails the row.
            inside: Keys that the list of elements may have in an object.
        """
        split = split_of_file(self.path)
        for index, element in enumerate(read_elements(self.path, inside=inside)):
            try:
                row = make(index, element)
            except SampleError as error:
                row = fault_row(element, error)
            yield msgspec.structs.replace(row, split=split) if split else row
