"""Hypothesis: the samples are the rows of tables, or the elements of documents, with the files that they name."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable

import numpy as np

from ...arrays import union
from ...errors import plural
from ..layouts.grouping import Grouping, are_parallel
from ..layouts.hypothesis import Hypothesis, TreeLayout, accounted, names_of, sentence_on_joins
from ..layouts.survey import Survey
from ..readers.registry import reader_of_rows
from ..tables.named_files import ROLE_NAMES, split_name
from ..tables.split_names import split_of_folder, split_of_name, splits_of_files
from .files_of_samples import layout_of_files, suffixes_of
from .headers import are_of_samples
from .matched import are_nearly_all


def by_rows(survey: Survey) -> Hypothesis | None:
    """Return the samples of the tables whose values name files; None if no values do."""
    tables = [table for table in survey.rows.rows if not table.joins]
    if not tables:
        return None
    files = survey.files
    named = {files.names[file_number] for file_number in survey.rows.named}
    # Files of the same name are taken along; those next to them that no row names are left out.
    others = [name for name in survey.roles["data"] if name not in named]
    grouping = suffixes_of(survey, [*named, *others]) if others else Grouping()
    paths = {grouping.path_of(name) for name in named if others}
    used = named.union(name for name in others if grouping.path_of(name) in paths)
    parallel = _parallel_folders(survey, named)
    partners = [name for names in parallel.values() for name in names]
    used.update(partners)
    spoken = _spoken_folders([table.file for table in tables])
    # Rows of boxes name no pictures without objects, which are samples, too.
    main = {table.file for table in tables if not table.kind}
    pairs = ((table, each.places[0]) for each in survey.references for table in each.tables if table.file in main)
    has_splits = len({*survey.rows.splits.values()} - {""}) > 1
    are_boxes = not has_splits and any(reader_of_rows(table.columns, name) for table, name in pairs)
    described = files.described(survey.rows.named)
    of_rows = {split_name(name)[1] for name in named if partners}
    left = {name: "L119" for name in partners if split_name(name)[1] not in of_rows}
    for name in others:
        folder, _, extension = split_name(name)
        if spoken and not any(f"{folder}/".startswith(f"{each}/") for each in spoken):
            used.add(name)
        elif name not in used and described(folder, extension):
            left |= {} if are_boxes else {name: "L119"}
            used.update([name] if are_boxes else [])
    # Files next to them, such as their texts, are left out with them.
    left_stems = {split_name(name)[:2] for name in left}
    left |= {name: "L119" for name in others if name not in used and split_name(name)[:2] in left_stems}
    layout = layout_of_files(survey, [name for name in survey.roles["data"] if name not in left], is_by_name=True)
    rows = sum(survey.rows_in(table.file) for table in tables)
    return accounted(
        survey,
        "rows that name files",
        TreeLayout(
            tables=survey.rows.files,
            rows=survey.rows,
            grouping=grouping,
            folders=layout.folders,
            top=layout.top,
            left=left,
            parallel=frozenset(parallel),
        ),
        used | {*survey.rows.files},
        evidence=_evidence(survey, dict.fromkeys(table.file for table in tables)) + sentence_on_joins(survey),
        samples=rows,
        named=not survey.classes,  # folders of classes would be lost
    )


def _evidence(survey: Survey, tables: Iterable[str]) -> str:
    """Return which files tables name, and which tables have the split parts, for people."""
    pairs = [(table, reference.places) for reference in survey.references for table in reference.tables]
    named = {name: union(table.named(places) for table, places in pairs if table.file == name) for name in tables}
    # Without split parts, all tables count together.
    splits = splits_of_files(named)
    has_splits = len({*splits.values()} - {""}) > 1
    main = [name for name in named if splits[name] or not has_splits]
    files = union(named[name] for name in main)
    # A picture of COCO has several annotations.
    are_pictures = {*map(survey.kind_of, main)} == {"coco"}
    count = len(files) if are_pictures else sum(map(survey.rows_in, main))
    rows, of = plural(count, "picture" if are_pictures else "row"), plural(len(survey.roles["data"]), "file")
    where = ", in these split parts" if has_splits else ""
    pieces = [f"the samples are the {rows} of {names_of(main)}, with the names of {len(files):,} of {of}{where}"]
    # Others name the same files again, or files of no split part.
    again = [name for name in named if name not in main and np.isin(named[name], files).all()]
    apart = [name for name in named if name not in main and name not in again]
    pieces += [f"the same files again in {names_of(again)}"] if again else []
    pieces += [f"other files, of no split part, in {names_of(apart)}"] if apart else []
    return "; ".join(pieces)


def _parallel_folders(survey: Survey, named: Collection[str]) -> dict[str, list[str]]:
    """Return the folders without named files, nearly all of whose files have the names of these, and these files."""
    main_folders = {name.rpartition("/")[0] for name in named}
    others: dict[str, list[str]] = {}
    for role in ("data", "document"):
        for name in survey.roles[role]:
            folder = name.rpartition("/")[0]
            if folder not in main_folders:
                others.setdefault(folder, []).append(name)
    of_folders: dict[str, dict[str, str]] = {}  # folder with named files → their names by stem
    for name in named if others else ():
        folder, stem, _ = split_name(name)
        of_folders.setdefault(folder, {})[stem] = name
    parallel: dict[str, list[str]] = {}
    for folder, names in others.items():
        mains = (main for main in of_folders if are_parallel(main, folder) and _splits_of(main) == _splits_of(folder))
        stems = {stem: name for main in mains for stem, name in of_folders[main].items()}
        pairs = [[stems[stem], name] for name in names if (stem := split_name(name)[1]) in stems]
        if len(pairs) < 2 or not are_nearly_all(len(pairs), len(names)):
            continue
        # Pictures of other sizes are others of the same name.
        if are_of_samples(survey.files.tree, pairs) is not False or ROLE_NAMES.fullmatch(posixpath.basename(folder)):
            parallel[folder] = names
    return parallel


def _splits_of(path: str) -> list[str]:
    return [split for folder in path.split("/") if (split := split_of_name(folder))]


def _spoken_folders(tables: list[str]) -> list[str]:
    """Return the folders that tables speak for, if each is in a split folder, or is named as metadata of its folder."""
    folders = [posixpath.dirname(table) for table in tables]
    are_inside = all(any(map(split_of_folder, folder.split("/"))) for folder in folders)
    return folders if are_inside else []
