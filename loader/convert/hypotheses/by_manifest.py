"""Hypothesis: the samples are the rows of manifests, with the members of tars that they name."""

from __future__ import annotations

from ...errors import plural
from ..layouts.hypothesis import Hypothesis, TreeLayout, accounted, names_of
from ..layouts.survey import Survey


def by_manifest(survey: Survey) -> Hypothesis | None:
    """Return the rows whose values name members of the tars; None if no values do."""
    rows = survey.member_rows
    tables = [table for table in rows.rows if not table.joins]
    if not tables or survey.members is None:
        return None
    tars = [name for name in survey.roles["tar"] if survey.files.tree.size(name)]
    count = sum(survey.rows_in(table.file) for table in tables)
    named = f"the names of {len(rows.named):,} of {plural(len(survey.members.names), 'member')}"
    names = names_of(table.file for table in tables)
    return accounted(
        survey,
        "rows that name members of tars",
        TreeLayout(kind="members", tables=rows.files, rows=rows, tars=(*tars,)),
        {*tars, *rows.files},
        evidence=f"the samples are the {plural(count, 'row')} of {names}, with {named}",
        samples=count,
    )
