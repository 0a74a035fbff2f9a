"""The files of a sample are in parallel folders: their paths are equal but for one folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ..layouts.grouping import Grouping, ListedFolder
from ..layouts.survey import Survey
from .headers import are_of_samples, groups_of
from .matched import Match, Roles, matched_roles


def find_parallel(
    survey: Survey, names: Sequence[str], folders: Sequence[ListedFolder], *, is_named: bool
) -> Match | None:
    """Return the depth at which folders have the same files below them, under the names of roles."""
    best: Match | None = None
    # Try each depth: the folders there differ, and the rest of the path names the sample.
    for depth in range(max(len(folder.names) for folder in folders)):
        roles: Roles = defaultdict(lambda: (set(), []))
        for folder in folders:
            if len(folder.names) > depth:
                rest = hash((folder.names[:depth], folder.names[depth + 1 :]))
                kinds, hashes = roles[folder.names[depth]]
                kinds.update(folder.kinds)
                hashes.append(np.array(folder.stems) ^ rest)

        def are_alike(of_roles: Sequence[str], depth: int = depth) -> bool | None:
            grouping = Grouping(by="parallel", depth=depth, roles=dict.fromkeys(of_roles, ""))
            return are_of_samples(survey.files.tree, groups_of(names, grouping))

        match = matched_roles(roles, "parallel", depth, is_named=is_named, are_alike=are_alike)
        if match is not None and (best is None or match.total > best.total):
            best = match
    return best
