"""Hypothesis: the samples are in tars."""

from __future__ import annotations

from ...errors import plural
from ..layouts.hypothesis import Hypothesis, TreeLayout, accounted
from ..layouts.survey import Survey, stem_of_tar

_MANY = 1 << 40  # samples, whose number is not known: the bytes decide whether pictures next to tars are figures


_FIGURES = 0.1  # of the bytes of the tars; more pictures are data


def by_tars(survey: Survey) -> Hypothesis | None:
    """Return the samples in the tars of a tree; None without tars."""
    tars = [name for name in survey.roles["tar"] if survey.files.tree.size(name)]
    if not tars:
        return None
    # img2dataset writes a table and statistics next to each tar.
    stems = {*map(stem_of_tar, tars)}
    left = {
        name: "L103" if role == "table" else "L102"
        for role in ("table", "document", "data")
        for name in survey.roles[role]
        if stem_of_tar(name) in stems or stem_of_tar(name).rpartition("_")[0] in stems
    }
    return accounted(
        survey,
        "samples in tars",
        TreeLayout(kind="tars", tars=(*tars,), left=left),
        {*tars},
        evidence=f"the samples are in {plural(len(tars), 'tar')}",
        samples=_MANY,
        figures=_FIGURES,
        named=all(table.joins for table in (*survey.rows.rows, *survey.member_rows.rows)),
    )
