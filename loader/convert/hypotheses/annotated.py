"""Find the files next to pictures that are annotations of a known format, and the files that name their classes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ...errors import ConfigError, EnergonError
from ...parts.kinds import MEDIA_KINDS
from ..layouts.hypothesis import TreeLayout
from ..layouts.survey import Survey
from ..layouts.tree_files import kind_of_extension
from ..readers.reader import About
from ..readers.registry import read_about, reader_of, readers

_MAX_FOLDERS = 30  # names of folders with files of an extension; more of them count together
_MAX_DRAWN = 20  # files of a folder that are read
_MAX_BYTES = 1 << 20  # of a file, which is enough to recognise it


def with_readers(survey: Survey, layout: TreeLayout) -> TreeLayout:
    """Return a layout that knows the readers of its annotations, if pictures are its samples."""
    if layout.kind != "files" or not any(kind == "image" for _, kind in survey.files.counts):
        return layout
    # Collect the files that may be annotations, by the name of their folder, and those that may name classes.
    extensions = {reader.extension for reader in readers().values()} - {""}
    of_classes = [reader.about_files for reader in readers().values() if reader.about_files]
    groups: dict[tuple[str, str], list[str]] = {}
    about: list[str] = []
    for folder, start, stop in survey.files.folders:
        of_extensions: dict[str, list[str]] = {}
        for name in survey.files.names[start:stop]:
            of_extensions.setdefault(name.rpartition(".")[2], []).append(name)
        for extension, names in of_extensions.items():
            if kind_of_extension(extension) in MEDIA_KINDS:  # as most files
                continue
            name_classes = {n for n in names if any(p.fullmatch(n.rpartition("/")[2]) for p in of_classes)}
            about += sorted(name_classes)
            rest = [n for n in names if n not in name_classes and n not in layout.left and n not in layout.tables]
            if rest and extension.lower() in extensions:
                groups.setdefault((posixpath.basename(folder), extension), []).extend(rest)
    for extension in extensions:
        several = [key for key in groups if key[1].lower() == extension]
        if len(several) > _MAX_FOLDERS:
            groups["/", extension] = [name for key in several for name in groups.pop(key)]
    # Some files of each group show its format.
    named = {key: reader_of(_drawn(survey, names), key[1].lower()) for key, names in groups.items()}
    named = {key: reader for key, reader in named.items() if reader}
    naming = {name for name in {*named.values()} if readers()[name].about_files}
    return replace(layout, readers=named, about=_about(survey, naming.pop(), about) if naming else ())


def _drawn(survey: Survey, names: Sequence[str]) -> Iterator[bytes]:
    for name in names[:: -(-len(names) // _MAX_DRAWN)]:
        with suppress(EnergonError), survey.files.tree.open(name) as file:
            yield file.read(_MAX_BYTES)


def _about(survey: Survey, reader: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the files that name classes; in one folder, all name the same ones."""
    of_folders: dict[str, tuple[str, About]] = {}
    for name in names:
        with survey.files.tree.open(name) as file:
            about = read_about(reader, name, file.read(_MAX_BYTES))
        if not about.classes:
            continue
        folder = posixpath.dirname(name)
        first, known = of_folders.setdefault(folder, (name, about))
        if known.classes != about.classes:
            fault = f"{first} and {name} name other classes for the annotations next to them"
            raise ConfigError(fault, at=survey.files.tree.path, hint="remove one of them")
        if about.keypoints:  # it says more than a list of names
            of_folders[folder] = name, about
    return tuple(name for name, _ in of_folders.values())
