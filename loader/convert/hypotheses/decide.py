"""Decide how the samples of a tree are made, or say what is unclear and which commands decide it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import permutations

from ...errors import ConfigError, plural
from ...format.documents import ImportWay
from ..layouts.alternatives import alternatives, disagreement, split_tables
from ..layouts.hypothesis import Hypothesis, TreeLayout, names_of
from ..layouts.survey import Survey
from ..tables.named_files import split_name
from .annotated import with_readers
from .by_files import by_files
from .by_manifest import by_manifest
from .by_rows import by_rows
from .by_tables import by_tables
from .by_tars import by_tars
from .foreign import foreign_format
from .things import with_things
from .unclear import Doubt, several_kinds, unnamed_partners, way_to_import
from .unsplit import are_whole, unsplit_names

_REPAIR = "repair it, or move it out of the folder"
_MAX_PARTS = 20  # tables and archives that samples of a tar may have as parts
_HYPOTHESES = (by_rows, by_manifest, by_tars, by_tables, by_files)


def decide(survey: Survey, *, takes_all: bool, is_webdataset: bool) -> tuple[TreeLayout, list[Hypothesis]]:
    """Return how the samples of a tree are made, and all ways that were compared.

    Args:
        takes_all: Every file with an extension is a part, except tables and archives.
        is_webdataset: The tree is a tar of samples.

    Raises:
        UnclearDataError: No way accounts for all references and nearly all files.
    """
    # The user may have said it; and tars of samples may have tables or archives as parts.
    is_said = takes_all or survey.options.group_by is not None
    if not is_said:
        survey.associate()
    has_parts = len(survey.roles["table"]) + len(survey.roles["archive"]) > _MAX_PARTS
    if is_webdataset and has_parts:
        return TreeLayout(), []
    if is_said:
        taken = by_files(survey, takes_all=True, is_webdataset=is_webdataset)
        if taken is None:
            return TreeLayout(), []
        ordered = with_things(survey, taken.layout)
        # An order of how files join says nothing about the formats of annotations.
        return ordered if takes_all else with_readers(survey, ordered), [taken]
    made = [each for hypothesis in _HYPOTHESES if (each := hypothesis(survey)) is not None]
    compared = sorted(made, key=lambda each: not each.fits)  # those that account for all come first
    if not compared and not any(survey.roles.values()):
        return TreeLayout(), []
    layout = compared[0].layout if compared and compared[0].fits else None
    doubt = several_kinds(survey, compared) if layout is None else next(_doubts(survey, layout), ("", ()))
    # What a damaged file says about others is lost; where it is a part, its sample fails.
    damaged = next((name for name in survey.damaged if layout is None or name in layout.left), None)
    if damaged is not None:
        doubt = f"{damaged} cannot be read: {survey.damaged[damaged]}", [ImportWay(_REPAIR)]
    fault, ways = foreign_format(survey) or unnamed_partners(survey) or doubt
    if layout is None or fault:
        error = UnclearDataError(fault, at=survey.files.tree.path, hint="; ".join(map(str, ways)))
        error.ways, error.hypotheses = ways, compared
        raise error
    return with_readers(survey, with_things(survey, layout)), compared


def _pooled_tables(survey: Survey, layout: TreeLayout) -> list[str]:
    """Return the tables in one folder whose rows are samples, if their names say more than numbers do.

    There are three or more of them, or one name is in another one, as in ``validated`` and ``invalidated``.
    """
    main = (each for each in survey.rows.rows if each.file in layout.tables and not (each.joins or each.is_again))
    tables = [*dict.fromkeys(each.file for each in main if not each.kind)]
    stems = [re.sub("[0-9]+", "0", split_name(name)[1]) for name in tables]
    is_one = len({split_name(name)[0] for name in tables}) == 1 and not any(survey.rows.splits.values())
    says_more = len(stems) > 2 or any(stem in other for stem, other in permutations(stems, 2))
    return tables if is_one and says_more and len({*stems}) == len(stems) <= _MAX_PARTS else []


class UnclearDataError(ConfigError):
    """There are several kinds of data in a tree.

    Attributes:
        ways: How each of them is imported alone.
        hypotheses: The ways to make samples that were compared.
    """

    ways: Sequence[ImportWay] = ()
    hypotheses: Sequence[Hypothesis] = ()


def _doubts(survey: Survey, layout: TreeLayout) -> Iterator[Doubt]:
    """Yield what is unclear about a layout that accounts for all files."""
    # Two columns may name other files for the same rows.
    for of_table in (each for each in survey.all_references if each.unclear and each.tables[0].file in layout.tables):
        file, names = of_table.tables[0].file, (of_table.places[0], of_table.unclear)
        rows = plural(survey.rows_in(file), "row")
        fault = f"columns {' and '.join(names)} of {file} name other files for its rows: which are meant is unclear"
        yield (
            fault,
            [way_to_import(survey, f"the files of {n}", rows, "--part", f"{n}={n}", sources=[file]) for n in names],
        )
    # Tables and lists of different split parts may name the same files.
    tables = split_tables(survey.all_references)
    if pair := disagreement(tables):
        first, second, count = pair
        fault = (
            f"{first.file} and {second.file} both name {plural(count, 'file')}: which split parts are meant is unclear"
        )
        patterns = alternatives(tables)[:_MAX_PARTS]
        counts = [sum(fnmatchcase(table.file, pattern) for table in tables) for pattern in patterns]
        ways = zip(patterns, (f"split parts by {plural(count, 'table')}" for count in counts), strict=True)
        yield fault, [way_to_import(survey, f"the split parts of {p}", makes, "--split-lists", p) for p, makes in ways]
    # Names may show split parts where nothing else divides the samples.
    if examples := unsplit_names(survey, layout):
        shown = " and ".join(examples[split] for split in sorted(examples, key=lambda split: split != "train")[:2])
        lines = (
            "write their lines as rows of a table, such as train.jsonl and test.jsonl, and import the folder of these"
        )
        if are_whole(survey, layout):
            yield f"files such as {shown} are split parts as a whole, and no samples", [ImportWay(lines)]
        fault = f"names such as {shown} tell split parts in an unknown way, and chance would divide the samples"
        moved = ImportWay("to keep the split parts, move the files to folders train, val and test")
        yield fault, [way_to_import(survey, "split parts by chance", "all samples", "--no-splits"), moved]
    # The names of tables may say which rows are meant.
    pooled = [] if survey.options.splits is not None else _pooled_tables(survey, layout)
    if pooled:
        singly = [way_to_import(survey, f"{n} alone", plural(survey.rows_in(n), "row"), sources=[n]) for n in pooled]
        rows = plural(sum(map(survey.rows_in, pooled)), "row")
        fault = f"{names_of(pooled)} name different files and no split part: whether all rows are meant is unclear"
        yield fault, [*singly, way_to_import(survey, "all of them", rows, "--no-splits")]
    # Rows may name parts of recordings.
    cut = () if survey.options.segments else survey.cut_tables
    for table in (each for each in cut if each.file in layout.tables):
        columns, files = ", ".join(table.part_columns), plural(len(survey.roles["data"]), "file")
        rows = plural(table.rows, "row")
        segments = way_to_import(survey, "the rows, each with its segment of a WAV or FLAC", rows, "--segments", "cut")
        whole = way_to_import(survey, "the rows, each with its whole recording", rows, "--segments", "whole")
        once = way_to_import(survey, "each recording once, without the rows", files, "--group-by", "name")
        fault = f"{table.file} names segments of recordings by {columns}, and whether to cut these is not said"
        yield fault, [segments, whole, once]
    # Two levels of folders may be classes.
    if (nested := layout.folders.nested) and not with_things(survey, layout).things:
        outer, (upper, lower) = plural(len({path[0] for path in nested}), "class", "classes"), nested[0]
        of_outer = way_to_import(survey, f"classes such as {upper}", outer, "--classes")
        plain = way_to_import(survey, "pictures without classes", plural(layout.samples, "sample"), "--no-classes")
        moved = ImportWay(f"for classes such as {lower}, move these folders up first")
        fault = f"pictures are in two levels of folders, such as {upper}/{lower}: which are classes is unclear"
        yield fault, [of_outer, plain, moved]
    # Files of one name may be a sample, or samples of several classes.
    if layout.is_unclear:
        shared, joined = layout.grouping.describe(), plural(layout.samples, "sample")
        apart = plural(len({split_name(name)[:2] for name in survey.roles["data"]}), "sample")
        together = way_to_import(survey, "one sample of the files of a name", joined, "--group-by", layout.grouping.by)
        compared = [together, way_to_import(survey, "a sample of each file", apart, "--group-by", "name")]
        if layout.grouping.by == "parallel":  # the folders with the same names may be the samples, too
            of_folders = plural(len({split_name(name)[0] for name in survey.roles["data"]}), "sample")
            compared.append(
                way_to_import(survey, "a sample of the files of each folder", of_folders, "--group-by", "folder")
            )
        fault = f"files have {shared}, and it is unclear whether these are a sample or several: neither names nor the"
        yield f"{fault} sizes of pictures say it", compared
