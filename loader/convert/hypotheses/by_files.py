"""Hypothesis: the samples are files that belong together by their names, to which tables may add parts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from ...errors import plural
from ...parts.kinds import MEDIA_KINDS
from ..file_trees.file_names import is_about
from ..layouts.grouping import Grouping
from ..layouts.hypothesis import Hypothesis, accounted, names_of, sentence_on_joins
from ..layouts.survey import Survey, is_known
from ..layouts.tree_files import kind_of_extension
from ..tables.named_files import split_extension, split_name
from .files_of_samples import layout_of_files

_MAX_OUTSIDE = 0.1  # of the files, that may be lists of names or classes
_MIN_DOCUMENTS = 3  # or data: one text next to one picture may be about it


def _of_folder(counts: Counter[str], folder: str) -> float:
    return max(_MIN_DOCUMENTS, counts[folder]) if folder in counts else inf


def _of_each_sample(survey: Survey) -> set[str]:
    """Return the documents with equal names, or an equal end behind the last ``_``, half as many as there are samples.

    Such as ``a_camera.json``, and ``calibration.txt`` in each folder.
    """
    data, documents = survey.roles["data"], survey.roles["document"]
    if not documents:
        return set()
    endings = {name: re.split("[_/]", name)[-1] for name in (*data, *documents)}
    counts = Counter(endings.values())
    samples = Counter(endings[name] if counts[endings[name]] > 1 else split_name(name)[2] for name in data)
    most = max(samples.values(), default=inf)
    return {name for name in documents if 2 * counts[endings[name]] >= max(2 * _MIN_DOCUMENTS, most)}


def _outside(survey: Survey, grouping: Grouping, names: Sequence[str]) -> set[str]:
    """Return the files in no sample, and files of an unknown kind, or of each sample, that have no partner."""
    # In most trees all files are media.
    if {*map(kind_of_extension, {name.rpartition(".")[2] for name in names})} <= {*MEDIA_KINDS}:
        return set()
    kinds = {name: kind_of_extension(split_extension(name.rpartition("/")[2])[1]) for name in names}
    media = [name for name, kind in kinds.items() if kind in MEDIA_KINDS]
    others = [name for name, kind in kinds.items() if kind not in MEDIA_KINDS]
    of_each = _of_each_sample(survey)
    if grouping.by == "name":
        others = [name for name in others if name in of_each or not is_known(kinds[name])]
    samples = {grouping.path_of(name) for name in media if others}
    of_known = {grouping.path_of(name) for name in names if is_known(kinds[name])} if others else set()
    alone = {name for name in others if name in of_each and grouping.path_of(name) not in samples}
    alone |= {name for name in others if not is_known(kinds[name]) and grouping.path_of(name) not in of_known}
    outside = {name for name in others if grouping.path_of(name) is None}
    return outside | alone if len(alone) <= len(media) else outside


def by_files(survey: Survey, *, takes_all: bool = False, is_webdataset: bool = False) -> Hypothesis | None:
    """Return the samples that files make without tables; None without files.

    Args:
        takes_all: The user requests the files: all of them are parts, but for tables and archives.
        is_webdataset: They are members of a tar of samples.
    """
    names = survey.roles["data"]
    documents = survey.roles["document"]
    # Documents are data where there are hardly any other files, or if they are a series.
    others = {name: split_name(name)[::2] for name in documents if not is_about(name.rpartition("/")[2])}
    of_data = [split_name(name)[::2] for name in names] if others else []
    of_folders = Counter(folder for folder, _ in of_data)
    extensions = Counter([*of_data, *others.values()])
    of_each = _of_each_sample(survey)
    are_all = takes_all or not (names or any(map(survey.is_of_series, documents)))
    taken = [
        name
        for name in documents
        if are_all
        or survey.is_sidecar(name)
        or survey.is_of_series(name)
        or name in of_each
        or (name in others and 2 * extensions[others[name]] >= _of_folder(of_folders, others[name][0]))
    ]
    names = sorted([*names, *taken])
    if not names:
        return None
    layout = layout_of_files(survey, names, is_webdataset=is_webdataset)
    # Files outside of all roles are lists of names or classes if they are few; more of them are data.
    outside = set() if takes_all or is_webdataset else _outside(survey, layout.grouping, names)
    names = [name for name in names if name not in outside] if len(outside) > _MAX_OUTSIDE * len(names) else names
    main = [table for table in survey.rows.rows if not table.joins] if not takes_all else []
    joins = tuple(table for table in survey.rows.rows if table.joins and not main and not takes_all)
    # Rows of tables that name folders as classes say more about the files in these, and elsewhere.
    if main and survey.classes and survey.classes <= layout.folders.classes.keys():
        joins, main = tuple(replace(table, joins=table.joins or "file") for table in survey.rows.rows), []
    rows = replace(survey.rows, rows=joins)
    lists = () if takes_all else {table.file for table in rows.lists}
    of_splits = [] if takes_all else [each.file for _, each in rows.split_lists]
    read = dict.fromkeys([*(table.file for table in joins), *of_splits])
    left = dict.fromkeys([*survey.roles["table"], *survey.roles["archive"], *survey.roles["tar"]], "L103")
    evidence = [f"the files of a sample have {layout.grouping.describe()}"]
    if classes := [*layout.folders.classes]:
        evidence.append(f"folders are {plural(len(classes), 'class', 'classes')}, such as {classes[0]}")
    if survey.classes:
        evidence.append("a table names them as the classes of other files, too")
    elif flat := layout.folders.flat:
        evidence.append(f"there are no classes in {names_of(flat)}")
    if strays := layout.folders.strays:
        evidence.append(f"there is no class for {plural(strays, 'file')} outside of these folders")
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
