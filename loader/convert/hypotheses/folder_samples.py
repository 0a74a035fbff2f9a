"""Each folder holds the files of a sample: ``s1/input.png``, ``s1/target.png``, and so in each folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..layouts.grouping import NUMBERED, without_folder
from ..tables.named_files import ROLE_NAMES
from ..tables.split_names import split_of_folder
from .shared_names import ListedFolder, kinds_of

_MAX_SAMPLES = 32  # of a folder that may be one sample, with all its files
_MIN_SHARE = 0.9  # of the folders that have the same names, so that each is a sample


def are_samples(folders: Sequence[ListedFolder]) -> bool:
    """Return True if folders have files of the same names, which are no numbers of pictures."""
    # Count the folders that have the same files.
    inner = [folder for folder in folders if folder.names]
    sets = Counter(map(_names_in, inner))
    if not sets or all(split_of_folder(folder.names[-1]) for folder in inner):
        return False
    samples, equal = sets.most_common(1)[0]
    count = sum(sets[names] for names in sets if names and names <= samples)  # a few may lack a file
    # Their names without numbers differ: they are parts, not a series.
    words = {stem.rstrip("0123456789_- ") for stem, _ in samples}
    are_distinct = "" not in words and len(words) == len(samples) > 1
    # Numbered folders with other names inside are samples, also if some of these have a number: t1, t2, seg.
    is_any_unnumbered = any(not NUMBERED.fullmatch(stem) for stem, _ in samples)
    are_numbered = is_any_unnumbered and "" not in words and all(NUMBERED.fullmatch(each.names[-1]) for each in inner)
    # Else the folders are parts, and the names those of samples.
    are_roles = count > len(samples) or all(map(ROLE_NAMES.fullmatch, words))
    are_alike = equal > 1 and 2 * equal >= len(inner) and count >= _MIN_SHARE * len(inner)
    return ((are_distinct and are_roles) or are_numbered) and are_alike


def _names_in(folder: ListedFolder) -> frozenset[tuple[str, frozenset[str]]]:
    """Return the names in a folder, without its own, and the kinds of their files; none if there are many."""
    samples = folder.samples.items() if len(folder.samples) <= _MAX_SAMPLES else ()
    return frozenset((without_folder(stem, folder.names[-1]), kinds_of(parts)) for stem, parts in samples)
