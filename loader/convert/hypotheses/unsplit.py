"""Find names of files that tell split parts, where nothing else divides the samples, so that chance would."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...parts.kinds import MEDIA_KINDS
from ..layouts.hypothesis import TreeLayout
from ..layouts.survey import Survey
from ..layouts.tree_files import kind_of_extension
from ..tables.columns import TableColumn
from ..tables.named_files import split_name
from ..tables.split_names import SPLIT_NAMES, is_split_name, split_of_words, splits_of_files

_MAX_DRAWN = 1000  # names that are searched


def unsplit_names(survey: Survey, layout: TreeLayout) -> Mapping[str, str]:
    """Return split parts that half of the files have in their paths, each with a file; none if they are not needed."""
    rows = [each.file for each in layout.rows.rows if not each.joins]
    has_splits = layout.folders.split_depth is not None or layout.rows.split_lists
    if (
        layout.kind != "files"
        or has_splits
        or survey.options.splits is not None
        or (layout.tables and not layout.rows.rows)
    ):
        return {}
    columns = (column for table in survey.tables if table.file in rows for column in table.columns)
    if len({*splits_of_files(rows).values()} - {""}) > 1 or any(map(_has_splits, columns)):
        return {}
    # Draw some files of the samples.
    names = [name for name in survey.files.names if name not in layout.left and name not in layout.tables]
    drawn = names[:: -(-len(names) // _MAX_DRAWN) or 1]
    splits = {name: split for name in drawn if (split := split_of_words(name))}
    examples = {split: name for name, split in reversed(splits.items())}
    return examples if len(examples) > 1 and 2 * len(splits) >= len(drawn) else {}


def _has_splits(column: TableColumn) -> bool:
    return column.plain_name in SPLIT_NAMES or all(map(is_split_name, column.texts.values or ["-"]))


def are_whole(survey: Survey, layout: TreeLayout) -> bool:
    """Return True if each file has all samples of a split part: names differ in the part, and in numbers of pieces."""
    names = [name for name in survey.files.names if name not in layout.left]
    stems = {split_name(name)[1] for name in names}
    kinds = {kind_of_extension(split_name(name)[2]) for name in names}
    is_series = len({re.sub("[0-9]+", "0", stem) for stem in stems}) < len(stems)
    return kinds.isdisjoint(MEDIA_KINDS) and (not is_series or all("-of-" in stem for stem in stems))
