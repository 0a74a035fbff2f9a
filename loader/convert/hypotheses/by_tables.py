"""Hypothesis: the samples are rows of tables, or objects in lists of documents, that name no files."""

from __future__ import annotations

from ..file_trees.file_names import BINARY_TABLES
from ..layouts.hypothesis import Hypothesis, Kind, TreeLayout, accounted, names_of
from ..layouts.survey import Survey, stem_of_tar
from ..layouts.tree_files import kind_of_extension
from ..tables.named_files import split_name


def by_tables(survey: Survey) -> Hypothesis | None:
    """Return the rows of tables that name no files; None without such tables."""
    tars = {*map(stem_of_tar, survey.roles["tar"])}
    tables = [name for name in survey.roles["table"] if stem_of_tar(name) not in tars]
    # Objects in documents are rows next to pictures, which are figures.
    documents = survey.roles["document"]
    if documents and all(kind_of_extension(split_name(name)[2]) == "image" for name in survey.roles["data"]):
        tables += survey.lists
    if not tables:
        return None
    binary = [name for name in tables if name.lower().endswith(BINARY_TABLES)]
    is_binary = len(binary) == len(tables)
    are_mixed = (bool(binary) and not is_binary) or len(survey.alike(tables)) > 1
    are_documents = survey.are_documents(tables)
    kind: Kind = "documents" if are_documents else "tables" if is_binary else "files"
    named = (
        {survey.files.names[file_number] for each in survey.references for file_number in each.named}
        if are_documents
        else ()
    )
    return accounted(
        survey,
        "rows of tables",
        TreeLayout(kind=kind, tables=(*tables,)),
        {*tables, *(named if are_documents else ())},
        evidence=f"the samples are the rows of {names_of(tables)}",
        samples=max(1, sum(map(survey.rows_in, tables))),
        named=not are_mixed and not any(not table.joins for table in survey.rows.rows),
    )
