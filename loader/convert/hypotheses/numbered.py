"""The files of a sample have the same number behind their prefixes: ``img1.png``, ``caption1.txt``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ..layouts.grouping import Grouping, ListedFolder
from ..layouts.survey import Survey
from .headers import are_of_samples, groups_of
from .matched import Match, Roles, matched_roles


def find_numbered(
    survey: Survey, names: Sequence[str], folders: Sequence[ListedFolder], *, is_named: bool
) -> Match | None:
    """Return the prefixes of numbers that the files of samples have."""
    if not is_named and not all(folder.are_numbered for folder in folders):
        return None
    roles: Roles = defaultdict(lambda: (set(), []))
    for folder in folders:
        for prefix, (kinds, numbers) in folder.numbers.items():
            roles[prefix][0].update(kinds)
            roles[prefix][1].append(np.array(numbers))

    def are_alike(of_roles: Sequence[str]) -> bool | None:
        grouping = Grouping(by="number", roles=dict.fromkeys(of_roles, ""))
        return are_of_samples(survey.files.tree, groups_of(names, grouping))

    match = matched_roles(roles, "number", 0, is_named=is_named, are_alike=are_alike)
    return None if match is None or match.is_unclear else match
