"""Statistics of a dataset with the condition that chooses the samples of each bar."""

from __future__ import annotations

from typing import Any

from ...dataset.opening import folder_at
from ...dataset.query import Condition, SampleQuery
from ...format.columns.column import column_names, open_column
from ...format.dataset_ref import DatasetRef
from ..stats import Distribution, StatsRequest, collect_stats


def statistics(ref: DatasetRef, split_part: str | None, sample: int) -> dict[str, Any]:
    """Return the statistics of a dataset as a JSON document; ``term`` names a value in a condition, or is None.

    Args:
        ref: The dataset.
        split_part: Only samples of this split part; None for all.
        sample: Number of random samples that are read; values in columns are complete.

    Raises:
        EnergonError: The dataset cannot be read.
    """
    folder = folder_at(ref)
    query = SampleQuery(split_parts=() if split_part is None else [split_part])
    report = collect_stats(StatsRequest(ref=ref, query=query, sample=sample))
    document = report.document()
    for one in (*document["numbers"].values(), *document["texts"].values()):
        one["term"] = one.pop("name")
    columns = {}
    for name in column_names(folder.storage):
        column = open_column(folder.storage, folder.index, name)
        if not column.record.categories:
            values = Distribution()
            values.add(column.values[column.is_known()])
            columns[name] = {**values.document(), "term": name if name in Condition(name).columns else None}
    document["numbers"] = columns | document["numbers"]
    return document
