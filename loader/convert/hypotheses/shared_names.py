"""Compare what is left of the paths of files without what may show the parts of samples that they are."""

from __future__ import annotations

import posixpath
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ...arrays import IntArray, union
from ...parts.kinds import kind_of_name, part_extension
from ..file_trees.file_names import group_files
from ..layouts.grouping import NUMBERED, Role
from ..tables.named_files import MAIN_NAMES
from ..tables.split_names import splits_of_names

_CUT = re.compile(r"[-_ .](?=[A-Za-z]|0[0-9]{3}$)")  # begin of a suffix, which may be the number of a channel
_PREFIX = re.compile(r"(?<=[A-Za-z])[-_ .]")  # end of a prefix
_AFFIX = re.compile(f"{_CUT.pattern}|{_PREFIX.pattern}")
_MIN_SUFFIXED = 2  # samples that have a suffix, and half of those in its folders
_MIN_SHARE = 0.1  # of all samples
_MAX_ROLES = 1000  # that are counted; more are words of names
_MAX_FOLDERS = 8  # next to each other, with suffixes; more are classes

Kinds = frozenset[str]


class ListedFolder:
    """A folder that has files.

    Attributes:
        names: Names of the folders above it, and its own; empty for the folder of the source.
        samples: Name → names of its parts; equal ones are one object, as trees have millions of files.
    """

    def __init__(self, names: tuple[str, ...], files: Sequence[str]) -> None:
        known: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.names = names
        self.samples = {stem: known.setdefault(names := (*parts,), names) for stem, parts in group_files(files)}
        self.parts = {*known}
        self.kinds = frozenset().union(*map(kinds_of, known))

    @property
    def hashes(self) -> IntArray:
        return np.fromiter(map(hash, self.samples), np.int64, len(self.samples))


@lru_cache(1024)
def kinds_of(parts: tuple[str, ...]) -> Kinds:
    """Return the kinds of parts; the extension where the kind is unknown."""
    kinds = ((kind_of_name(part), part) for part in parts)
    return frozenset(part_extension(part) if kind == "bytes" else kind for kind, part in kinds)


@dataclass(slots=True)
class Rest:
    """The rest of the paths of the files of a role.

    Attributes:
        kinds: Kinds of the files.
        hashes: Hashes of the rests.
        counts: Path without the folder of the role → number of files there.
    """

    kinds: set[str] = field(default_factory=set)
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    hashes: array[int] = field(default_factory=lambda: array("q"))


Rests = dict[Role, Rest]


@dataclass(frozen=True, slots=True)
class Partners:
    """Roles that may be the parts of samples.

    Attributes:
        main: The role of the files that name the samples.
        shared: Other role → number of the samples that it shares with the main one.
        rests: Role → what it leaves of paths.
        depth: Position of the folder in the roles.
    """

    main: Role
    shared: Mapping[Role, int]
    rests: Rests
    depth: int | None = None


def by_folder(folders: Iterable[ListedFolder], depth: int) -> Partners | None:
    """Return the folders at a depth that have the same files below them."""
    rests: Rests = defaultdict(Rest)
    for folder in folders:
        if len(folder.names) > depth:
            rest = rests[Role(folder=folder.names[depth])]
            rest.kinds.update(folder.kinds)
            rest.hashes.frombytes((folder.hashes ^ hash(_without(folder.names, depth))).tobytes())
    return _partners(rests, depth)


def by_number(folders: Iterable[ListedFolder], *, is_named: bool) -> Partners | None:
    """Return the prefixes of the same numbers; None if there are other names, unless the user asks for numbers."""
    rests: Rests = defaultdict(Rest)
    for folder in folders:
        of_folder = hash(folder.names)
        # Numbers alone have no prefix.
        if "".join(folder.samples).isdecimal():
            rests[Role()].kinds.update(folder.kinds)
            rests[Role()].hashes.frombytes((folder.hashes ^ of_folder).tobytes())
            continue
        for stem, parts in folder.samples.items():
            match = NUMBERED.fullmatch(stem) if stem[-1:].isdecimal() else None
            if match is None and not is_named:
                return None
            if match and ((role := Role(prefix=match[1])) in rests or len(rests) < _MAX_ROLES):
                rests[role].kinds.update(kinds_of(parts))
                rests[role].hashes.append(hash(match[2]) ^ of_folder)
    return _partners(rests)


def _partners(rests: Rests, depth: int | None = None) -> Partners | None:
    """Return the roles that share at least half of their rests with the main role."""
    if len(rests) < 2:
        return None
    # Compare with the main role; or with the one that has the most, which others may differ next to.
    unique = {role: union([np.array(rest.hashes)]) for role, rest in rests.items()}
    shared: dict[Role, int] = {}
    for is_by_name in (True, False):
        main = max(unique, key=lambda role: (is_by_name and _is_main(role), len(unique[role]), role))
        counts = {
            role: len(np.intersect1d(unique[main], hashes, assume_unique=True))
            for role, hashes in unique.items()
            if role != main
        }
        shared = {role: count for role, count in counts.items() if 2 * count >= len(unique[role])}
        if shared:
            return Partners(main, shared, rests, depth)
    return None


def _is_main(role: Role) -> bool:
    return MAIN_NAMES.fullmatch(role.name) is not None


def by_suffix(folders: Sequence[ListedFolder], depth: int | None) -> Iterator[Partners]:
    """Yield the suffixes and prefixes that half of the names without them have, too, for each likely main folder.

    Args:
        depth: Position of a folder that files of a sample may differ in, too: ``train/a.jpg``, ``masks/a_mask.gif``.
    """
    # Group the names by the folder at the depth, and by the rest of the path.
    trees: dict[str, dict[tuple[str, ...], ListedFolder]] = defaultdict(dict)
    for folder in folders:
        if depth is None:
            trees[""][folder.names] = folder
        elif len(folder.names) > depth:
            trees[folder.names[depth]][_without(folder.names, depth)] = folder
    if depth is not None and not (1 < len(trees) <= _MAX_FOLDERS and len(splits_of_names(trees)) < len(trees)):
        return
    # Names of the main folder may all end in a suffix.
    endings = {name: _ending([stem for each in tree.values() for stem in each.samples]) for name, tree in trees.items()}
    for main in sorted(trees, key=lambda name: (not MAIN_NAMES.fullmatch(name), len(endings[name]), name)):
        rests = _suffixed(trees, main, endings[main])
        first = Role(folder=main, suffix=endings[main])
        counts = {role: len(rest.hashes) for role, rest in rests.items()}
        least = max(_MIN_SUFFIXED, _MIN_SHARE * counts.get(first, 0))
        shared = {
            role: counts[role]
            for role in sorted(rests)
            if role[1:] != first[1:]
            and counts[role] >= max(least, sum(rests[first].counts[above] for above in rests[role].counts) / 2)
        }
        if shared and first in rests:
            yield Partners(first, shared, rests, depth)


def _suffixed(trees: Mapping[str, Mapping[tuple[str, ...], ListedFolder]], main: str, ending: str) -> Rests:
    rests: Rests = defaultdict(Rest)
    bases = {above: {stem.removesuffix(ending) for stem in each.samples} for above, each in trees[main].items()}
    for name, tree in trees.items():
        for above, folder in tree.items():
            of_folder = bases.get(above, set())
            is_main, is_searched = name == main, bool(of_folder)
            if is_main:  # most names have no affix, as quick looks at all of them show
                is_searched = len(trees) == 1 and len({*map(len, folder.samples)}) > 1
                is_searched = is_searched and _AFFIX.search("\n".join(folder.samples)) is not None
            pairs = ((stem, _affixes(stem, of_folder, is_main=is_main)) for stem in folder.samples if is_searched)
            affixed = {stem: affixes for stem, affixes in pairs if affixes}
            if is_main and not ending and not affixed:
                rests[Role(name)].kinds.update(folder.kinds)
                rests[Role(name)].hashes.extend(map(hash, folder.samples))
                rests[Role(name)].counts[above] += len(folder.samples)
                continue
            for stem in folder.samples if is_main else affixed:
                role = Role(name, *affixed.get(stem, ("", ending)))
                if role in rests or len(rests) < _MAX_ROLES:
                    rests[role].kinds.update(kinds_of(folder.samples[stem]))
                    rests[role].hashes.append(hash(stem))
                    rests[role].counts[above] += 1
    return rests


def _affixes(stem: str, of_folder: Collection[str], *, is_main: bool) -> tuple[str, str] | None:
    """Return what a name has before and behind the longest name of the main folder that is in it; None without one.

    Args:
        is_main: The name is of the main folder itself, and is none of its own affixes.
    """
    ends = [match.start() for match in _CUT.finditer(stem, 1)] + ([] if is_main else [len(stem)])
    for end in reversed(ends):
        if stem[:end] in of_folder:
            return "", stem[end:]
    starts = (match.end() for match in _PREFIX.finditer(stem))
    return next(((stem[:start], "") for start in starts if stem[start:] in of_folder), None)


def _ending(stems: Sequence[str]) -> str:
    """Return the suffix that all of several names have; ``""`` for none."""
    if not stems or not _CUT.search(stems[0]):
        return ""
    cut = _CUT.search(posixpath.commonprefix([stem[::-1] for stem in stems])[::-1])
    return cut.string[cut.start() :] if cut and len({*stems}) > 1 else ""


def _without(names: tuple[str, ...], depth: int) -> tuple[str, ...]:
    return (*names[:depth], *names[depth + 1 :])
