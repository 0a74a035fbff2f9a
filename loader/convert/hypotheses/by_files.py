"""Hypothesis: the samples are files that belong together by their names, to which tables may add parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf

from ...errors import plural
from ..file_trees.file_names import is_about
from ..layouts.hypothesis import Hypothesis, accounted, names_of, sentence_on_joins
from ..layouts.survey import Survey
from ..tables.named_files import split_name
from .files_of_samples import layout_of_files

_MIN_DOCUMENTS = 3  # or data: one text next to one picture may be about it


def _of_folder(counts: Counter[str], name: str) -> float:
    return max(_MIN_DOCUMENTS, counts[split_name(name)[0]]) if split_name(name)[0] in counts else inf


def by_files(survey: Survey, *, takes_all: bool = False, is_webdataset: bool = False) -> Hypothesis | None:
    """Return the samples that files make without tables; None without files.

    Args:
        takes_all: The user requests the files: all of them are parts, but for tables and archives.
        is_webdataset: They are members of a tar of samples.
    """
    names = survey.roles["data"]
    documents = survey.roles["document"]
    # Documents are data where there are hardly any other files, or if they are a series.
    others = {name for name in documents if not is_about(name.rpartition("/")[2])}
    of_folders = Counter(split_name(name)[0] for name in names if others)
    extensions = Counter(split_name(name)[::2] for name in (*names, *others) if others)
    are_all = takes_all or not (names or any(map(survey.is_of_series, documents)))
    taken = [
        name
        for name in documents
        if are_all
        or survey.is_sidecar(name)
        or survey.is_of_series(name)
        or (name in others and 2 * extensions[split_name(name)[::2]] >= _of_folder(of_folders, name))
    ]
    names = sorted([*names, *taken])
    if not names:
        return None
    layout = layout_of_files(survey, names, is_webdataset=is_webdataset)
    main = [table for table in survey.rows.rows if not table.joins] if not takes_all else []
    joins = tuple(table for table in survey.rows.rows if table.joins and not main and not takes_all)
    rows = replace(survey.rows, rows=joins)
    lists = () if takes_all else {table.file for table in rows.lists}
    of_splits = [] if takes_all else [each.file for _, each in rows.split_lists]
    read = dict.fromkeys([*(table.file for table in joins), *of_splits])
    left = dict.fromkeys([*survey.roles["table"], *survey.roles["archive"], *survey.roles["tar"]], "L103")
    evidence = [f"the files of a sample have {layout.grouping.describe()}"]
    if classes := [*layout.folders.classes]:
        evidence.append(f"folders are {plural(len(classes), 'class', 'classes')}, such as {classes[0]}")
    if flat := layout.folders.flat:
        evidence.append(f"there are no classes in {names_of(flat)}")
    if layout.folders.split_depth is not None:
        evidence.append("folders are the split parts")
    return accounted(
        survey,
        "files",
        replace(
            layout,
            tables=(*read,),
            rows=rows,
            left=left if takes_all else dict.fromkeys(lists - read.keys(), "L102"),
        ),
        {*names, *read},
        evidence="; ".join(evidence) + sentence_on_joins(survey),
        samples=len(names),
        named=not main and (takes_all or not are_all or not survey.lists),  # lists of objects are no samples
        is_files=True,
    )
