"""The files of a sample are in parallel folders and have suffixes: ``train/a.jpg``, ``train_masks/a_mask.gif``."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...accounting.kinds import kind_of_name
from ..layouts.folder_layout import splits_of_names
from ..layouts.grouping import Grouping, folder_names, role_of_parts
from ..layouts.survey import Survey
from ..tables.named_files import MAIN_NAMES, ROLE_NAMES, part_name_of_column, split_name
from .headers import are_of_samples, groups_of
from .matched import Match

_CUT = re.compile(r"[-_ .](?=[A-Za-z])")  # begin of a suffix
_MAX_ROLES = 8  # folders next to each other; more are classes
_MIN_BASES = 2

Stems = dict[str, set[tuple[tuple[str, ...], str]]]
"""Folder at a depth → the rest of the paths and the names of its files."""


def find_parallel_suffixed(survey: Survey, names: Sequence[str]) -> Match | None:
    """Return the depth at which folders have the same files below them, but for suffixes of their names."""
    folders = [folder_names(folder) for folder in dict.fromkeys(name.rpartition("/")[0] for name in names)]
    for depth in range(max(map(len, folders), default=0)):
        main = {folder[depth] for folder in folders if len(folder) > depth}
        if 1 < len(main) <= _MAX_ROLES and len(splits_of_names(main)) < len(main):
            stems: Stems = defaultdict(set)
            for above, stem in ((folder_names(name), stem) for name, stem, _ in map(split_name, names)):
                if len(above) > depth:
                    stems[above[depth]].add(((*above[:depth], *above[depth + 1 :]), stem))
            matches = (_match(survey, names, stems, depth, main) for main in _mains(stems))
            best = max((match for match in matches if match is not None), key=lambda match: match.total, default=None)
            if best is not None:
                return best
    return None


def _mains(stems: Stems) -> list[str]:
    """Return the folders that may have the main files, the likely ones first."""
    return sorted(stems, key=lambda name: (MAIN_NAMES.fullmatch(name) is None, len(_ending(stems[name])), name))


def _match(survey: Survey, names: Sequence[str], stems: Stems, depth: int, main: str) -> Match | None:
    # The main folder has one name for each sample, which may end in a suffix that all have.
    ending = _ending(stems[main])
    bases = {(rest, stem.removesuffix(ending)) for rest, stem in stems[main]}
    # Suffixes of other folders follow these names, and at least half of the samples have them.
    counts: Counter[tuple[str, str]] = Counter()
    for name in stems.keys() - {main}:
        for rest, stem in stems[name]:
            base = next((base for base in _bases(stem) if (rest, base) in bases), None)
            if base is not None:
                counts[name, stem.removeprefix(base)] += 1
    # What all names of both folders end in is no suffix.
    kept = sorted(
        key for key, count in counts.items() if 2 * count >= len(bases) and count >= _MIN_BASES and key[1] != ending
    )
    if not kept:
        return None
    roles = {role_of_parts(main, ending): f"{part_name_of_column(ending)}." if ending else ""}
    roles |= {role_of_parts(*key): f"{part_name_of_column(key[1] or key[0])}." for key in kept}
    # Pictures of one sample have one size; else the names of parts decide, or the user.
    pictures = [name for name in names if kind_of_name(name) == "image"]
    grouping = Grouping(by="parallel", depth=depth, roles=roles)
    of_pictures = {grouping.role_of(folder_names(split_name(name)[0]), split_name(name)[1]) for name in pictures}
    shown = replace(grouping, roles={role: begin for role, begin in roles.items() if role in of_pictures})
    alike = are_of_samples(survey.files.tree, groups_of(pictures, shown)) if len(shown.roles) > 1 else None
    if alike is False:
        return None
    are_roles = all(ROLE_NAMES.fullmatch(part_name_of_column(suffix or folder)) for folder, suffix in kept)
    return Match(sum(counts[key] for key in kept), grouping, is_unclear=not (alike or are_roles))


def _ending(stems: set[tuple[tuple[str, ...], str]]) -> str:
    """Return the suffix that all names have; ``""`` for none."""
    # The first and the last of sorted texts have the beginning that all of them have.
    reversed_stems = [stem[::-1] for _, stem in stems]
    first, last = min(reversed_stems), max(reversed_stems)
    length = next((n for n, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), len(first))
    cut = _CUT.search(first[:length][::-1])
    return cut.string[cut.start() :] if cut and len(stems) > 1 else ""


def _bases(stem: str) -> Iterator[str]:
    """Yield a name, and the name without each of the suffixes that it may have, the shortest suffix first."""
    yield stem
    for cut in reversed([*_CUT.finditer(stem, 1)]):
        yield stem[: cut.start()]
