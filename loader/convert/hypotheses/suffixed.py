"""The files of a sample have the same name but for a suffix: ``a.tif``, ``a_mask.tif``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ..layouts.grouping import Grouping
from ..layouts.survey import Survey
from ..tables.named_files import part_name_of_column, split_name
from .headers import are_of_samples, groups_of
from .matched import Match

_SUFFIX = re.compile(r"(.+?)([-_ .][A-Za-z][A-Za-z0-9]*)")
_MIN_BASES = 2
_MAX_SUFFIXES = 1000  # that are counted; more are words of names


def find_suffixed(survey: Survey, names: Sequence[str]) -> Match | None:
    """Return the suffixes that at least half of the names without them have, too."""
    stems: dict[str, set[str]] = {}
    for name in names:
        folder, stem, _ = split_name(name)
        stems.setdefault(folder, set()).add(stem)
    suffixes: Counter[str] = Counter()
    for of_folder in stems.values():
        for stem in sorted(of_folder):
            match = _SUFFIX.fullmatch(stem)
            if match and match[1] in of_folder and (match[2] in suffixes or len(suffixes) < _MAX_SUFFIXES):
                suffixes[match[2]] += 1
    bases = sum(map(len, stems.values())) - suffixes.total()
    kept = [suffix for suffix, count in suffixes.items() if 2 * count >= bases and count >= _MIN_BASES]
    if not kept:
        return None
    roles = {"": "", **{suffix: f"{part_name_of_column(suffix)}." for suffix in sorted(kept)}}
    grouping = Grouping(by="suffix", roles=roles)
    # Pictures of one sample have one size.
    if are_of_samples(survey.files.tree, groups_of(names, grouping)) is False:
        return None
    return Match(sum(suffixes[suffix] for suffix in kept), grouping)
