"""Names of files: of parts, tables, archives and files about the data; files that share a name are a sample."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...accounting.kinds import MEDIA_KINDS, kind_of_name
from ...accounting.other_file import is_unread_archive
from ..rows.row import unique_part
from ..tables.named_files import EXTENSIONS, split_extension

TAR_ENDINGS = (".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz", ".tar.zst", ".tar.lz4")
"""Endings of tar files, compressed ones included."""
BINARY_TABLES = tuple(f".{extension}" for extensions in EXTENSIONS.values() for extension in extensions)
"""Endings of tables that are read by pyarrow."""
OF_THE_SYSTEM = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})
"""Names of files and folders that macOS and Windows leave next to the data."""
HIDDEN = "hidden"
"""Reason of hidden files, which are not counted."""

_ABOUT = re.compile(
    r"(readme|licen[cs]e|copying|notice|citation|changelog|contributing|authors|requirements)\b.*"
    r"|makefile|dockerfile|dataset_infos?\.json|croissant\.json|sample_?submission.*\.csv",
    re.IGNORECASE,
)
_ABOUT_FOLDERS = frozenset({"assets", "asset", "docs", "doc", "figures", "figure", "figs", "fig", "static", "misc"})
_ABOUT_ENDINGS = (".md", ".rst", ".py", ".sh", ".ipynb", ".yml", ".yaml", ".toml", ".cfg", ".ini", ".bib", ".cff")
_TEXT_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".csv.gz", ".tsv.gz", ".jsonl.gz")
_ARCHIVES = (*TAR_ENDINGS, ".zip", ".7z", ".rar")
_NEVER_PARTS = (*_ARCHIVES, *BINARY_TABLES)
_RECORDS = re.compile(r".*\.(tfrecords?|array_?record|riegeli|recordio|beton|mdb)(-\d+-of-\d+)?(\.gz)?", re.IGNORECASE)
_ENDINGS = {ending.rpartition(".")[2] for ending in (*_NEVER_PARTS, *_TEXT_TABLES, *_ABOUT_ENDINGS)}


@dataclass(frozen=True, slots=True)
class SortedFiles:
    """Names of files by what they are; each list is sorted.

    Attributes:
        parts: Files that may be parts of samples.
        tables: Tables, each of many rows.
        about: Files that describe the data, such as cards and scripts.
    """

    parts: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    about: list[str] = field(default_factory=list)


def sort_files(names: Sequence[str]) -> SortedFiles:
    """Sort the files of a folder by what their names say.

    A text table or a script that shares its name with another file is a part of that sample: ``a.csv`` next to
    ``a.jpg``.

    >>> sort_files(["a.jpg", "a.csv", "labels.csv", "README.md", "x.tar"])
    SortedFiles(parts=['a.csv', 'a.jpg'], tables=['labels.csv'], archives=['x.tar'], about=['README.md'])
    """
    files = SortedFiles()
    # Text tables and scripts may be parts, which other files decide.
    alone: list[tuple[str, list[str]]] = []
    for name in sorted(names):
        lower = name.lower()
        if has_records(lower):
            files.archives.append(name)
        elif lower.rpartition(".")[2] not in _ENDINGS and not _ABOUT.fullmatch(lower):
            files.parts.append(name)  # most files
        elif lower.endswith(_NEVER_PARTS):
            (files.archives if lower.endswith(_ARCHIVES) else files.tables).append(name)
        elif lower.endswith(_TEXT_TABLES) and not _ABOUT.fullmatch(lower):
            alone.append((name, files.tables))
        elif is_about(lower):
            alone.append((name, files.about))
        else:
            files.parts.append(name)
    # They are parts if they share their name with a part.
    if alone:
        stems = {name.rpartition(".")[0] for name in files.parts} | {*files.parts}
        for name, others in alone:
            (files.parts if name.rpartition(".")[0] in stems else others).append(name)
        files.parts.sort()
    return files


def join_names(folder: str, name: str) -> str:
    """Return the path of a file in a tree, whose outer folder has no name."""
    return f"{folder}/{name}" if folder else name


def has_records(name: str) -> bool:
    """Return True for a file of many samples that is not imported, such as TFRecord, or a piece of an archive."""
    return _RECORDS.fullmatch(name) is not None or is_unread_archive(name)


def is_archive(name: str) -> bool:
    """Return True for the name of an archive of any kind, in lower case."""
    return name.endswith(_ARCHIVES)


def is_table(name: str) -> bool:
    """Return True for the name of a table, in lower case."""
    return name.endswith((*BINARY_TABLES, *_TEXT_TABLES))


def is_about(name: str) -> bool:
    """Return True for a file that describes the data."""
    return _ABOUT.fullmatch(name) is not None or name.lower().endswith(_ABOUT_ENDINGS)


def is_medium_of_data(name: str) -> bool:
    """Return True for a picture, sound or video that is no figure of a card.

    >>> is_medium_of_data("videos/1.mp4"), is_medium_of_data("teaser.png"), is_medium_of_data("a/figures/1.png")
    (True, False, False)
    """
    folders = name.lower().split("/")[:-1]
    return bool(folders) and _ABOUT_FOLDERS.isdisjoint(folders) and kind_of_name(name) in MEDIA_KINDS


def reason_of_name(name: str) -> str:
    """Return the reason for which a file is left out by its name alone; ``""`` for none, :data:`HIDDEN` without count.

    >>> reason_of_name("a/.git/x.jpg"), reason_of_name("__MACOSX/._x.jpg"), reason_of_name("README")
    ('hidden', 'L108', 'L102')
    """
    pieces = name.split("/")
    if any(piece.startswith(".") and piece not in (".", "..") for piece in pieces[:-1]):
        return HIDDEN
    if pieces[-1].startswith("._") or not OF_THE_SYSTEM.isdisjoint(pieces):
        return "L108"
    if pieces[-1].startswith("."):
        return HIDDEN
    if "." in pieces[-1].rstrip("."):
        return ""
    return "L102" if _ABOUT.fullmatch(pieces[-1]) else "L101"


def group_files(names: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Group the files of a folder to samples; names that differ only in their Unicode form are equal.

    Returns:
        For each sample its name without the extension, and its parts: part name → file name; sorted.

    >>> group_files(["b.jpg", "a.jpg", "a.txt", "b.jpg.json", "b.seg.png"])
    [('a', {'jpg': 'a.jpg', 'txt': 'a.txt'}), ('b', {'jpg': 'b.jpg', 'json': 'b.jpg.json', 'seg.png': 'b.seg.png'})]
    """
    # Compare names in one Unicode form, since file systems differ in it.
    composed = [(name if name.isascii() else unicodedata.normalize("NFC", name), name) for name in sorted(names)]
    present = {name for name, _ in composed}
    stems = {split_extension(name)[0] for name in present}
    samples: dict[str, dict[str, str]] = {}
    for name, file in composed:
        stem, extension = split_extension(name)
        part = extension.lower()
        if stem in present:  # b.jpg.txt next to b.jpg
            stem = stem.rpartition(".")[0]
        else:
            first, _, inner = stem.partition(".")
            is_number = first.isdecimal() and inner.isdecimal()  # 0.5.jpg next to 0.jpg
            if inner and first in stems and not is_number:  # b.seg.png next to b.jpg
                stem, part = first, f"{inner}.{extension}".lower()
        parts = samples.setdefault(stem, {})
        parts[unique_part(part, parts)] = file  # a.jpg and a.JPG
    return sorted(samples.items())
