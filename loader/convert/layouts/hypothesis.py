"""A hypothesis: one way to make samples of the files of a tree, with what it accounts for."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from ...errors import plural
from ...parts.kinds import MEDIA_KINDS
from ..file_trees.file_names import BARE, is_about, is_medium_of_data, join_names, reason_of_name, role_of_name
from ..tables.named_files import split_name
from .folder_layout import FolderLayout
from .grouping import Grouping, folder_names, folders_above
from .rows import NamedRows
from .survey import Survey, is_series
from .tree_files import kind_of_extension

_MAX_UNCLEAR = 0.02  # of the files and of the bytes, for which a hypothesis does not account
_MAX_SHARE = 0.1  # of the rows and of the bytes of the samples, that a file about the data has
_SMALL_BYTES = 1 << 16  # of a card or a list of classes next to little data
_MAX_NAMES = 8  # of tables in a sentence
_MIN_MEDIA = 10  # of fewer, no table is so short that it describes all of them


Kind = Literal["files", "tables", "tars", "documents", "members"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLayout:
    """Describe how the samples of a tree are made.

    Attributes:
        kind: Samples are groups of ``"files"``, rows of ``"tables"``, which pyarrow reads alone and as a whole, or in
            ``"tars"``, or ``"documents"`` of texts and pictures in lines of JSON, or rows that name ``"members"`` of
            tars.
        tables: Tables whose rows are samples.
        rows: Tables whose rows name files, or join samples.
        tars: Tars that hold the samples of the tree.
        grouping: What the files of a sample share.
        top: Number of outer folders that contain everything.
        left: Files that are left out, with the reasons.
        parallel: Folders whose files belong to the rows that name files of the same name.
        things: Folders whose samples are views of one thing each, and so stay in one split part.
        readers: Name of a folder, or a slash for all, and extension → reader of the annotations in such files.
        about: Files that name the classes of annotations.
        associated: Path of a recording without its extension → name of a part → file that it gets.
        is_unclear: Files of one name may be a sample, or samples of several classes.
        samples: Number of the samples that files make.
    """

    kind: Kind = "files"
    tables: tuple[str, ...] = ()
    rows: NamedRows = field(default_factory=NamedRows)
    tars: tuple[str, ...] = ()
    grouping: Grouping = field(default_factory=Grouping)
    folders: FolderLayout = field(default_factory=FolderLayout)
    top: int = 0
    left: Mapping[str, str] = field(default_factory=dict)
    parallel: frozenset[str] = frozenset()
    things: frozenset[str] = frozenset()
    readers: Mapping[tuple[str, str], str] = field(default_factory=dict)
    about: tuple[str, ...] = ()
    associated: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_unclear: bool = False
    samples: int = 0

    @property
    def is_plain(self) -> bool:
        """True if files that share a name are the samples, each as it is."""
        is_by_name = self.kind == "files" and self.grouping.by == "name" and not self.readers
        is_whole = {*self.left.values()} <= {BARE} and not (self.tables or self.rows.rows or self.associated)
        return is_by_name and is_whole and not self.folders.classes and self.folders.split_depth is None

    @property
    def has_rows(self) -> bool:
        """True if samples are rows of tables, and not of documents that a source of their own reads."""
        rows = [each for each in self.rows.rows if not each.joins and not each.kind]
        return self.kind != "documents" and bool(rows if self.rows.rows else self.tables)

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of a folder and of the folders above it that tell splits and classes."""
        return self.grouping.without_role(folder_names(folder))[self.top :]

    def reader_of(self, name: str) -> str:
        """Return the reader of the annotations in a file; an empty text for another file."""
        folder, _, extension = split_name(name) if self.readers else ("", "", "")
        return self.readers.get((posixpath.basename(folder), extension), self.readers.get(("/", extension), ""))

    def about_of(self, name: str) -> str:
        """Return the file that names the classes of annotations: the nearest one above, or the only one."""
        folders = {posixpath.dirname(each): each for each in reversed(self.about)}
        nearest = (folders[folder] for folder in folders_above(name) if folder in folders)
        return next(nearest, self.about[0] if len(folders) == 1 else "")

    def thing_of(self, path: str) -> str:
        """Return the folder of a sample that is a view of one thing with others; an empty text for another sample."""
        return next((folder for folder in folders_above(path) if folder in self.things), "") if self.things else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One way to make samples of a tree.

    Attributes:
        name: What the samples are.
        evidence: Why they may be that, for people.
        samples: Their number, as far as it is known: the rows of all tables.
        unclear: Files that have no role.
        size_bytes: Returns the size of these files.
        fits: It accounts for all references, and for nearly all files and bytes.
    """

    name: str
    evidence: str
    samples: int
    layout: TreeLayout
    unclear: Sequence[str]
    size_bytes: Callable[[], int]
    fits: bool

    def to_document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "evidence": self.evidence,
            "samples": None if self.layout.kind == "tars" else self.samples,
            "left_out": len(self.layout.left),
            "unclear": len(self.unclear),
            "unclear_bytes": self.size_bytes(),
            "example": self.unclear[0] if self.unclear else None,
            "fits": self.fits,
        }


def names_of(tables: Iterable[str]) -> str:
    """Return the names of tables, for people; of many, their number and the first one."""
    names = [*dict.fromkeys(tables)]
    if len(names) > _MAX_NAMES:
        return f"{plural(len(names), 'table')} such as {names[0]}"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def sentence_on_joins(survey: Survey) -> str:
    """Return which tables add parts to the samples, as the end of a sentence; no text if none does."""
    joins = [table.file for table in survey.rows.rows if table.joins]
    joins += sorted({name for parts in survey.associated.values() for name in parts.values()})
    return f"; further parts from {names_of(joins)}" if joins else ""


def accounted(
    survey: Survey,
    name: str,
    layout: TreeLayout,
    used: Collection[str],
    *,
    evidence: str,
    samples: int,
    named: bool = True,
    is_files: bool = False,
    figures: float = 1.0,
) -> Hypothesis:
    """Return a hypothesis after each file that it does not use has a reason, or is unclear.

    Args:
        used: The files that it uses.
        samples: Number of its samples.
        figures: Largest share of the bytes of its samples that pictures next to them have.
        named: It accounts for the references.
        is_files: Its samples are files, and tables next to a few of them are other data.
    """
    files, left, unclear = survey.files, {**layout.left, **dict.fromkeys(survey.left, "L102")}, list[str]()

    def unclear_bytes() -> int:
        return sum(map(files.size, unclear))

    all_files = (*files.names, *files.tree.bare)

    @cache
    def of_samples() -> int:
        return sum(files.size(file) for file in all_files if file in used)

    # Files without an extension that have most of the bytes are no lists about the others.
    bare = survey.roles["bare"]
    are_bare_most = bool(bare) and sum(map(files.size, bare)) > of_samples()
    for role, names in survey.roles.items():
        others = [file for file in names if file not in used and file not in left]
        if role == "data":
            # A few pictures next to rows or tars are figures; data next to files are samples.
            pictures = [file for file in others if kind_of_extension(split_name(file)[2]) == "image"]
            are_figures = 2 * len(pictures) <= samples and (
                not (any(map(is_medium_of_data, pictures)) or is_series(pictures))
                or sum(map(files.size, pictures)) <= figures * of_samples()
            )
            left |= dict.fromkeys(pictures if are_figures else (), "L102")
        for file in others:
            if role in ("tar", "archive", "table") and not files.size(file):
                left[file] = "L110"
            elif (
                role in ("table", "document", "bare")
                and not (role == "bare" and are_bare_most)
                and _is_about(survey, file, samples, of_samples, files.size(file), is_files=is_files)
            ):
                is_table = role == "table" and not is_about(file.rpartition("/")[2])
                left[file] = BARE if role == "bare" else "L103" if is_table else "L102"
        unclear += [file for file in others if file not in left]
    # Files about recordings that are left out are left out with them.
    gone = {join_names(*split_name(file)[:2]) for file in left if survey.associated}
    associated = {path: parts for path, parts in survey.associated.items() if path not in gone}
    kept = {name for parts in associated.values() for name in parts.values()}
    left |= {name: "L119" for parts in survey.associated.values() for name in parts.values() if name not in kept}
    # Few files may be unclear, but no reference.
    named = named and not any(
        survey.names_data(file) or (survey.is_list(file) and survey.rows_in(file) > _MAX_SHARE * samples)
        for file in unclear
    )
    fits = named and len(unclear) <= _MAX_UNCLEAR * len(files.names)
    if fits and unclear:
        fits = unclear_bytes() <= _MAX_UNCLEAR * sum(map(files.size, all_files))
    return Hypothesis(
        name=name,
        evidence=evidence,
        samples=layout.samples or samples,
        layout=replace(
            layout, left={**left, **(dict.fromkeys(unclear, "L124") if fits else {})}, associated=associated
        ),
        unclear=unclear,
        size_bytes=unclear_bytes,
        fits=fits,
    )


def _is_about(
    survey: Survey, file: str, samples: int, of_samples: Callable[[], int], size_bytes: int, *, is_files: bool
) -> bool:
    """Return True for a table or document that describes the data, and is none of them."""
    rows, is_table = survey.rows_in(file), role_of_name(file) == "table"
    media = sum(survey.files.counts["", kind] for kind in MEDIA_KINDS)
    if is_table and not survey.tables:  # it was not read, and is all that there is
        return False
    if reason_of_name(file) == BARE:  # it is not text, or a short one
        return 2 * rows < samples or not survey.is_list(file)
    if survey.says_nothing(file) or is_about(file.rpartition("/")[2]):
        return size_bytes <= _SMALL_BYTES or size_bytes <= _MAX_SHARE * of_samples()
    if survey.names_data(file):
        return False
    if is_table and survey.is_of_others(file):
        return True
    # As many rows as half of the media may be about each of them, and a list of objects is data unless it is short.
    if 2 * rows >= media if media >= _MIN_MEDIA else is_table and media and (is_files or rows > samples):
        return False
    if survey.kind_of(file) or (rows > 1 and survey.is_list(file) and rows > _MAX_SHARE * samples):
        return False
    is_small = size_bytes <= _SMALL_BYTES or size_bytes <= _MAX_SHARE * of_samples()
    return is_small and not survey.is_of_series(file)
