"""Find tables and lists of different split parts that name the same files: only some of them can be meant."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import combinations

import numpy as np

from ...arrays import IntArray, union
from ..tables.split_names import is_of_several_splits, split_of_folder, splits_of_files
from .references import Reference

_MAX_SHARED = 0.02  # of the files of the smaller split part, that are strays


@dataclass(frozen=True, slots=True)
class SplitTable:
    """A table or list that is named after a split part.

    Attributes:
        named: Numbers of the files that it names, ascending.
    """

    file: str
    split: str
    named: IntArray


def split_tables(references: Sequence[Reference]) -> list[SplitTable]:
    """Return the tables and lists that are named after one split part."""
    pairs = [(table, each) for each in references for table in each.tables]
    splits = splits_of_files({table.file for table, _ in pairs})
    return [
        SplitTable(table.file, split, table.named(each.places, each.weakest_form))
        for table, each in pairs
        if (split := split_of_folder(table.inside) or splits[table.file]) and not is_of_several_splits(table.file)
    ]


def disagreement(tables: Sequence[SplitTable]) -> tuple[SplitTable, SplitTable, int] | None:
    """Return two tables of different split parts, and the number of files that both name; None for a few files."""
    splits = dict.fromkeys(table.split for table in tables)
    named = {split: union(table.named for table in tables if table.split == split) for split in splits}
    for split, other in combinations(splits, 2):
        shared = np.intersect1d(named[split], named[other])
        if len(shared) > max(1, _MAX_SHARED * min(len(named[split]), len(named[other]))):
            first, second = (next(_that_name(tables, each, shared)) for each in (split, other))
            second = next(_that_name(tables, other, first.named), second)
            return first, second, len(np.intersect1d(first.named, second.named))
    return None


def _that_name(tables: Sequence[SplitTable], split: str, named: IntArray) -> Iterator[SplitTable]:
    return (table for table in tables if table.split == split and np.isin(table.named, named).any())


def alternatives(tables: Sequence[SplitTable]) -> list[str]:
    """Return patterns of the names of tables that agree: by the last numbers of names, by folders, or of single tables.

    >>> names = ("train1.txt", "test1.txt", "train2.txt")
    >>> alternatives([SplitTable(name, name[:-5], union([])) for name in names])
    ['*[!0-9]1.txt', '*[!0-9]2.txt']
    """
    ways: list[Callable[[str], str]] = [
        lambda name: re.sub(r".*?(\d+)(\D*)$", r"*[!0-9]\1\2", name),
        lambda name: f"{posixpath.dirname(name)}/*",
    ]
    for way in ways:
        patterns = [*dict.fromkeys(way(table.file) for table in tables)]
        kept = [[table for table in tables if fnmatchcase(table.file, pattern)] for pattern in patterns]
        if len(patterns) > 1 and max(map(len, kept)) > 1 and not any(map(disagreement, kept)):
            return patterns
    return [*dict.fromkeys(table.file for table in tables)]
