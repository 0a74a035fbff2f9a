"""Names of files: of parts, tables, archives and files about the data; files that share a name are a sample."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from ...parts.kinds import MEDIA_KINDS, kind_of_name
from ...parts.other_file import is_unread_archive
from ..rows.key_names import without_controls
from ..rows.row import unique_part
from ..tables.named_files import split_extension
from ..tables.table_files import EXTENSIONS

TAR_ENDINGS = (".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz", ".tar.zst", ".tar.lz4")
"""Endings of tar files, compressed ones included."""
BINARY_TABLES = tuple(f".{extension}" for extensions in EXTENSIONS.values() for extension in extensions)
"""Endings of tables that are read by pyarrow."""
OF_THE_SYSTEM = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})
"""Names of files and folders that macOS and Windows leave next to the data."""
DOCUMENTS = frozenset({"json", "txt", "xml", "lst", "html", "log", "scp"})
"""Endings of texts that may say something about other files."""
HIDDEN = "hidden"
"""Reason of hidden files, which are not counted."""
BARE = "L101"
"""Reason of files without an extension, which may be tables nevertheless."""

Role = Literal["data", "table", "document", "tar", "archive", "records", "bare"]
"""What a file may be by its name: data of samples, a table, a text or document that may say something about others, an
archive, a file of many records that is not read, or a file without an extension, which is no part of a sample."""

_ABOUT = re.compile(
    r"(readme|licen[cs]e|copying|notice|citation|changelog|contributing|authors|requirements)\b.*"
    r"|makefile|dockerfile|dataset_infos?\.json|croissant\.json|sample_?submission.*\.csv",
    re.IGNORECASE,
)
_ABOUT_LINE = re.compile(rf"^(?:{_ABOUT.pattern})", re.IGNORECASE | re.MULTILINE)
_ABOUT_FOLDERS = frozenset({"assets", "asset", "docs", "doc", "figures", "figure", "figs", "fig", "static", "misc"})
_ABOUT_ENDINGS = (".md", ".rst", ".py", ".sh", ".ipynb", ".yml", ".yaml", ".toml", ".cfg", ".ini", ".bib", ".cff")
_TEXT_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".csv.gz", ".tsv.gz", ".jsonl.gz")
_ARCHIVES = (*TAR_ENDINGS, ".zip", ".7z", ".rar")
_RECORDS = re.compile(
    r".*\.(tfrec(ords?)?|array_?record|riegeli|recordio|beton|mdb|mcap|bag)(-\d+-of-\d+)?(\.gz)?", re.IGNORECASE
)


def role_of_name(name: str) -> Role:
    """Return what a file may be by its name.

    >>> [role_of_name(name) for name in ("a.jpg", "a.tsv", "README.md", "x.tar.gz", "x.zip", "x.tfrecord")]
    ['data', 'table', 'document', 'tar', 'archive', 'records']
    """
    lower = name.rpartition("/")[2].lower()
    # Most files are media or texts.
    extension = lower.rpartition(".")[2]
    if extension in DOCUMENTS:
        return "document"
    if kind_of_name(lower) in MEDIA_KINDS:
        return "document" if is_about(lower) else "data"
    if _RECORDS.fullmatch(lower) or is_unread_archive(lower):  # of many samples, or a piece of an archive
        return "records"
    if lower.endswith(TAR_ENDINGS):
        return "tar"
    if lower.endswith(_ARCHIVES):
        return "archive"
    if is_table(lower):
        return "table"
    return "document" if is_about(lower) else "data"


def are_media(names: Sequence[str]) -> bool:
    """Return True for the names of pictures, sounds and videos that do not describe the data, in one folder.

    >>> are_media(["a.jpg", "b.PNG"]), are_media(["a.jpg", "readme.jpg"]), are_media(["a.jpg", "b.csv"])
    (True, False, False)
    """
    kinds = {*map(kind_of_name, {name.rpartition(".")[2] for name in names})}
    return kinds <= {*MEDIA_KINDS} and not _ABOUT_LINE.search("\n".join(names))


def join_names(folder: str, name: str) -> str:
    """Return the path of a file in a tree, whose outer folder has no name."""
    return f"{folder}/{name}" if folder else name


def is_table(name: str) -> bool:
    """Return True for the name of a table, in lower case."""
    return name.endswith((*BINARY_TABLES, *_TEXT_TABLES))


def is_about(name: str) -> bool:
    """Return True for a file that describes the data."""
    return name.lower().endswith(_ABOUT_ENDINGS) or _ABOUT.fullmatch(name) is not None


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
    # Most files have an extension.
    if name[:1] != "." and "/" not in name and "." in name.rstrip(".") and name not in OF_THE_SYSTEM:
        return ""
    pieces = name.split("/")
    if any(piece.startswith(".") and piece not in (".", "..") for piece in pieces[:-1]):
        return HIDDEN
    if pieces[-1].startswith("._") or not OF_THE_SYSTEM.isdisjoint(pieces):
        return "L108"
    if pieces[-1].startswith("."):
        return HIDDEN
    if "." in pieces[-1].rstrip("."):
        return ""
    return "L102" if _ABOUT.fullmatch(pieces[-1]) else BARE


def group_files(names: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Group the files of a folder to samples; names that differ only in their Unicode form are equal.

    Returns:
        For each sample its name without the extension, and its parts: part name → file name; sorted.

    >>> group_files(["b.jpg", "a.jpg", "a.txt", "b.jpg.json", "b.seg.png"])
    [('a', {'jpg': 'a.jpg', 'txt': 'a.txt'}), ('b', {'jpg': 'b.jpg', 'json': 'b.jpg.json', 'seg.png': 'b.seg.png'})]
    """
    # Compare names in one Unicode form, since file systems differ in it.
    files = sorted(names)
    composed = [name if name.isascii() else unicodedata.normalize("NFC", name) for name in files]
    present = {*composed}
    split = [*map(split_extension, composed)]
    stems = {stem for stem, _ in split}
    plain = {extension: without_controls(extension.lower()) for extension in {extension for _, extension in split}}
    samples: dict[str, dict[str, str]] = {}
    for (whole, extension), file in zip(split, files, strict=True):
        stem, part = whole, plain[extension]
        if stem in present:  # b.jpg.txt next to b.jpg
            stem = stem.rpartition(".")[0]
        elif "." in stem:
            first, _, inner = stem.partition(".")
            is_number = first.isdecimal() and inner.isdecimal()  # 0.5.jpg next to 0.jpg
            if inner and first in stems and not is_number:  # b.seg.png next to b.jpg
                stem, part = first, without_controls(f"{inner}.{extension}".lower())
        parts = samples.setdefault(stem, {})
        parts[unique_part(part, parts) if part in parts else part] = file  # a.jpg and a.JPG
    return sorted(samples.items())
