"""The files of a tree before anything is decided: their names, their kinds, and how many of a kind a folder has."""

from __future__ import annotations

import posixpath
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...engine import Account
from ...parts.kinds import MEDIA_KINDS, kind_of_name
from ..file_trees.file_names import join_names
from ..file_trees.tree import FileTree
from ..tables.name_index import NameIndex
from ..tables.named_files import split_name
from .grouping import folders_above

_MIN_FILES = 2  # of a folder, that ids without extensions may name
_MAX_STEMS = 100  # names that many folders may have, whose files are kept
_MIN_SHARE = 0.25  # of all files of a kind that they name


@lru_cache(1024)
def kind_of_extension(extension: str) -> str:
    """Return the kind of files with an extension; the extension itself where the kind is unknown.

    >>> kind_of_extension("JPG"), kind_of_extension("nii.gz"), kind_of_extension("")
    ('image', 'nii.gz', '')
    """
    kind = kind_of_name(extension)
    return extension.lower() if kind == "bytes" else kind


class TreeFiles:
    """The files of a tree that may be used, sorted by folder and name; they are listed when they are needed."""

    def __init__(self, tree: FileTree) -> None:
        self.tree = tree
        self._of_stems: dict[str, dict[str, list[int]]] = {}

    @cached_property
    def names(self) -> list[str]:
        """Names from the outer folder on; numbers of files are positions in this list."""
        return [join_names(folder, name) for folder, names in self._listed for name in names]

    @cached_property
    def folders(self) -> list[tuple[str, int, int]]:
        """Folders with the numbers of their first file and of the one after their last."""
        ends = accumulate(len(names) for _, names in self._listed)
        return [(folder, end - len(names), end) for (folder, names), end in zip(self._listed, ends, strict=True)]

    @cached_property
    def _listed(self) -> list[tuple[str, list[str]]]:
        return [*self.tree.folders(Account())]

    @cached_property
    def index(self) -> NameIndex:
        return NameIndex(self.names)

    def of_stem(self, stem: str) -> Mapping[str, Sequence[int]]:
        """Return the files of a name without the extension: folder → their numbers."""
        if stem not in self._of_stems:
            if len(self._of_stems) >= _MAX_STEMS:
                self._of_stems.clear()
            folders: dict[str, list[int]] = {}
            for file_number in self.index.of_stem(stem):
                folders.setdefault(posixpath.dirname(self.names[file_number]), []).append(file_number)
            self._of_stems[stem] = folders
        return self._of_stems[stem]

    @cached_property
    def size(self) -> Callable[[str], int]:
        """A function that returns the size of a file in bytes; of millions of files, they take seconds."""
        return cache(self.tree.size)

    @cached_property
    def folder_hashes(self) -> IntArray:
        """Hashes of the paths and names of all folders, ascending."""
        paths = {folder for folder, _ in self.counts if folder}
        return np.unique(
            np.array([hash(name) for path in paths for name in (path, posixpath.basename(path))], np.int64)
        )

    def are_in(self, hashes: IntArray) -> bool:
        """Return True if all folders in one folder, at least two, have names with these hashes."""
        inner: dict[str, list[int]] = {}
        for folder in {folder for folder, _ in self.counts if folder}:
            inner.setdefault(posixpath.dirname(folder), []).append(hash(posixpath.basename(folder)))
        return any(len(names) > 1 and np.isin(names, hashes).all() for names in inner.values())

    def folders_of(self, name: str, table: str) -> list[str]:
        """Return the folders of a path or name, each with a slash at its end: those below a table, if there are any."""
        same, near = self._folders.get(posixpath.basename(name), []), posixpath.dirname(table)
        whole = [folder for folder in same if folder in (name, f"{near}/{name}")]
        if not whole and "/" not in name:
            below = [folder for folder in same if folder.startswith(f"{near}/")]
            whole = below or same
        return [f"{folder}/" for folder in whole]

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        """All folders, by their last name."""
        folders: dict[str, list[str]] = {}
        for folder in dict.fromkeys(folder for folder, _ in self.counts if folder):
            folders.setdefault(posixpath.basename(folder), []).append(folder)
        return folders

    @cached_property
    def _kinds(self) -> tuple[list[str], IntArray]:
        """All kinds, and the position of the kind of each file in them."""
        known, of_ending = dict[str, int](), dict[str, int]()
        positions = array("i")
        for name in self.names:
            ending = name[name.rfind(".") :]
            position = of_ending.get(ending)
            if position is None:
                extension = split_name(name)[2]
                position = known.setdefault(kind_of_extension(extension), len(known))
                if ending[1:] == extension:  # not gz, which may be of nii.gz
                    of_ending[ending] = position
            positions.append(position)
        return [*known], np.array(positions, np.int64)

    def media_in(self, named: IntArray) -> int:
        """Return the number of pictures, sounds and videos among some files."""
        kinds, positions = self._kinds
        are_media = np.array([kind in MEDIA_KINDS for kind in kinds], bool)
        return int(are_media[positions[named]].sum())

    @cached_property
    def counts(self) -> Counter[tuple[str, str]]:
        """Folder and kind → number of such files in the folder and below it; of the whole tree for ``""``."""
        return self._counts(np.arange(len(self.names)))

    def cover(self, named: IntArray, *, needs_several: bool) -> float | None:
        """Return the largest share that some files are of all files of a kind; None if it is too small.

        It has to be half of a kind in the tree or in a folder.

        Args:
            needs_several: The folder has three files or more, and the files are a quarter of their kind in the tree.
        """
        counts = self._counts(named)
        of_tree = {kind: count / self.counts["", kind] for (folder, kind), count in counts.items() if not folder}
        enough = (
            (folder, kind)
            for (folder, kind), count in counts.items()
            if 2 * count >= self.counts[folder, kind]
            and (not needs_several or (self.counts[folder, kind] >= _MIN_FILES and of_tree[kind] >= _MIN_SHARE))
        )
        return None if next(enough, None) is None else max(of_tree.values())

    def described(self, named: IntArray) -> Callable[[str, str], bool]:
        """Return a function of a folder and an extension: are half of such files, there or in a folder above, named?"""
        counts = self._counts(named)

        @cache
        def is_described(folder: str, extension: str) -> bool:
            kind = kind_of_extension(extension)
            if 2 * counts[folder, kind] >= self.counts[folder, kind] > 0:
                return True
            return bool(folder) and is_described(posixpath.dirname(folder), extension)

        return is_described

    def _counts(self, named: IntArray) -> Counter[tuple[str, str]]:
        # Number the pairs of a folder and a kind, and count these.
        kinds, positions = self._kinds
        folders = np.array([stop for _, _, stop in self.folders]).searchsorted(named, side="right")
        pairs, counted = np.unique(folders * len(kinds) + positions[named], return_counts=True)
        counts = {
            (self.folders[pair // len(kinds)][0], kinds[pair % len(kinds)]): count
            for pair, count in zip(pairs.tolist(), counted.tolist(), strict=True)
        }
        # Add up the folders above.
        total = Counter[tuple[str, str]]()
        for (folder, kind), count in counts.items():
            for above in (folder, *folders_above(folder)):
                total[above, kind] += count
        return total
