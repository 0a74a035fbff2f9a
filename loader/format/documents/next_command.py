"""Name the command that makes a dataset of a path that is none: ``energon prepare`` or ``energon import``.

What import makes of a path is decided by a package above this one, which is found by its name.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from itertools import islice
from pkgutil import resolve_name
from typing import Literal, NamedTuple

from ...parts.kinds import AUDIO, IMAGE, VIDEO
from ...storage import is_url, open_storage
from ..data_kind import ENDINGS, SHARD_SUFFIXES, data_kind
from ..dataset_ref import DatasetRef
from ..nv_meta import INFO_JSON
from ..unfinished import IMPORT_FOLDER, continuing

# Endings of files that ``energon import`` reads and that are no datasets themselves.
_SOURCES = (".csv", ".tsv", ".json", ".ndjson", ".gz", ".pq", ".arrow", ".feather", ".ipc", ".zip")
_OF_HUGGING_FACE = frozenset(("dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json"))
_MEDIA = AUDIO | IMAGE | VIDEO
Content = Literal["shards", "tables", "media", "files", "tokens", "metadatasets", "nothing"]
_MAX_FILES = 100_000  # that are listed for a hint


def quoted(text: str) -> str:
    r"""Quote a text for a shell, with escapes for what a terminal does not show.

    >>> print(quoted("my photos"), quoted("a\x1bb"))
    'my photos' $'a\x1bb'
    """
    if text.isprintable():
        return shlex.quote(text)
    codes = os.fsencode(text)
    return "$'" + "".join(chr(c) if 31 < c < 127 and chr(c) not in "\\'" else f"\\x{c:02x}" for c in codes) + "'"


def split_hint(path: str) -> str:
    """Return how the split of a dataset is made, as a hint."""
    return f"split it: energon split {quoted(path)} --split-ratio 8,1,1"


class ImportWay(NamedTuple):
    """A way to import a path. As text, it is a hint: ``for the files alone, run: energon import …``."""

    taken: str = ""  # what it takes, where there are several kinds of data; without words, what to do instead
    # the command line after ``energon``, which works as it stands in a script; empty if there is none
    words: Sequence[str] = ()
    unpacks: Sequence[Sequence[str]] = ()  # command lines that unpack archives before
    makes: str = ""  # what it would make and leave out, for a menu

    @property
    def is_import(self) -> bool:
        """True if the import is all that there is to do."""
        return bool(self.words) and not self.unpacks

    def __str__(self) -> str:
        if not self.words:
            return self.taken
        line = " && ".join(" ".join(map(quoted, words)) for words in (*self.unpacks, ("energon", *self.words)))
        how = "unpack the archive first" if self.unpacks else "run"
        return f"for {self.taken}, {how}: {line}" if self.taken else f"{how}: {line}"


def import_way(path: str, *options: str, sources: Sequence[str] = (), taken: str = "", makes: str = "") -> ImportWay:
    """Return the command line that imports a file or folder of this machine to a new folder next to it.

    Args:
        sources: Files in the folder to import instead.
    """
    words = ["import", *map(_as_argument, sources or [path]), new_folder_for(path), *options, "--yes"]
    return ImportWay(taken, words, makes=makes)


# The folder or URL that was typed for the dataset; the command lines of hints then name it.
IMPORT_DEST: ContextVar[str] = ContextVar("energon_import_dest", default="")

_DECISION = f"{__name__.partition('.')[0]}.convert.sources:ways_to_import"
"""The function that decides what import makes of a path, of a package that this one does not need."""


def import_hint(path: str) -> str:
    """Return how a file or folder of this machine is imported, as a hint."""
    try:
        decide = resolve_name(_DECISION)
    except ImportError:
        return str(import_way(path))
    return "; ".join(map(str, decide(path)))


def _as_argument(path: str) -> str:
    path = path.rstrip("/") or path
    if {"", ".", ".."} & {os.path.basename(path)}:
        path = os.path.abspath(path)
    return os.path.join(".", path) if path.startswith("-") else path


def new_folder_for(path: str) -> str:
    """Return the folder for an imported dataset: the typed one, a new one, or the folder of an unfinished import."""
    if typed := IMPORT_DEST.get():
        return _as_argument(typed)
    source = _as_argument(path)
    parent, name = os.path.split(source)
    stem = name if os.path.isdir(source) else name.partition(".")[0] or name
    if not os.access(parent or ".", os.W_OK):
        is_inside = os.path.commonpath((os.path.realpath(source), os.getcwd())) == os.path.realpath(source)
        parent = os.path.expanduser("~") if is_inside or not os.access(".", os.W_OK) else ""
    folder, suffix = os.path.join(parent, f"{stem}-dataset"), 1
    while os.path.lexists(folder) and not os.path.exists(os.path.join(folder, IMPORT_FOLDER)):
        suffix += 1
        folder = os.path.join(parent, f"{stem}-dataset-{suffix}")
    return folder


def fault_of_file(path: str) -> tuple[str, str] | None:
    """Return a message and a hint for a file that is given as a dataset, but has no such format; None for others.

    Args:
        path: A path of this machine, or a URL.
    """
    if data_kind(path).suffixes or not os.path.isfile(path):
        return None
    folder = os.path.dirname(path) or "."
    if path.endswith(".tar"):
        return "a single tar file is not a dataset", f"give its folder: {folder}"
    message = "this file is not a dataset; expected a folder of shards, or a file that ends in "
    if path.lower().endswith(_SOURCES):
        hint = import_hint(path)
    else:
        hint = (
            f"give its folder: {folder}"
            if os.path.exists(os.path.join(folder, INFO_JSON))
            else command_for_folder(folder)
        )
    return f"{message}{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}", hint


def content_of_folder(path: str, names: Sequence[str] | None = None) -> Content:
    """Return what a folder that is not a prepared dataset holds, by the names of its files; the first 100,000 decide.

    Args:
        path: The folder, or its URL.
        names: Files of the folder; None lists a folder of this machine, and takes shards for granted at a URL.
    """
    if names is None and is_url(path):
        return "shards"
    names = list_files(path) if names is None else names
    extensions = {os.path.splitext(name)[1].lower().removeprefix(".") for name in names}
    if any(".tar" in name or name.endswith(".tgz") for name in names):
        return "shards"
    if not {f".{extension}" for extension in extensions}.isdisjoint(SHARD_SUFFIXES):
        is_of_others = any(os.path.basename(name) in _OF_HUGGING_FACE for name in names)
        return "shards" if not is_of_others and extensions.isdisjoint(_MEDIA) else "tables"
    if extensions >= {"bin", "idx"}:
        return "tokens"
    if extensions and extensions <= {"yaml", "yml"}:
        return "metadatasets"
    if not any(extensions):
        return "nothing"
    return "media" if extensions <= _MEDIA else "files"


def command_for_folder(path: str, names: Sequence[str] | None = None, *, option: str = "") -> str:
    """Return what to do with a folder that is not a prepared dataset, as a hint.

    Args:
        names: As for :func:`content_of_folder`.
        option: Options for ``energon prepare``, after a space.
    """
    # An interrupted import comes before all else: its shards are not complete.
    if not is_url(path) and os.path.exists(os.path.join(path, IMPORT_FOLDER)):
        return continuing(open_storage(path))
    prepare = f"energon prepare {quoted(path)}{option}"
    names = list_files(path) if names is None and not is_url(path) else names
    # Choose the command by the files in the folder.
    content = content_of_folder(path, names)
    if content == "shards":
        return f"run: {prepare}"
    if content == "nothing":
        return "give the folder that holds the shards"
    if content in ("tokens", "metadatasets"):
        is_pair = content == "tokens"
        what = "token files are datasets as they are" if is_pair else "give a metadataset by its file"
        first = next(name for name in names or () if not is_pair or name.endswith(".bin"))
        return f"{what}: energon info {quoted(os.path.join(path, first))}"
    if is_url(path):
        return str(import_way(os.path.basename(path.rstrip("/")), sources=[path]))
    # Tables and media have a second way that needs no import.
    others = {
        "tables": f"; or, to load its tables as they are: {prepare}",
        "media": f"; for files that samples of another dataset name: energon prepare-media {quoted(path)}",
    }
    is_large = len(names or ()) >= _MAX_FILES  # to decide by all files takes minutes
    return f"{import_way(path) if is_large else import_hint(path)}{others.get(content, '')}"


def command_for_ref(ref: DatasetRef) -> str:
    """Return what to do with the folder of a reference, which is not a prepared dataset, as a hint."""
    option = "".join(f" {quoted(word)}" for word in ref.folder_flags)
    return command_for_folder(ref.path, option=option)


def list_files(path: str) -> list[str]:
    """Return the files below a folder of this machine that are not hidden, at most 100,000."""

    def walk() -> Iterator[str]:
        for base, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (os.path.relpath(os.path.join(base, name), path) for name in sorted(names) if name[:1] != ".")

    return [*islice(walk(), _MAX_FILES)]
