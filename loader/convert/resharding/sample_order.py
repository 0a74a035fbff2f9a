"""Sort samples by their keys, or by the values of a column."""

from __future__ import annotations

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...format.columns.column import open_column
from ...format.columns.column_files import column_names
from ...format.dataset_folder import DatasetFolder
from ...format.documents.messages import did_you_mean

_KEY = "key"


def sorted_rows(folder: DatasetFolder, samples: IntArray, by: str) -> IntArray:
    """Return the positions in ``samples`` in sorted order; equal ones keep their order, those without a value are last.

    Args:
        folder: The dataset.
        samples: Numbers of samples.
        by: ``"key"``, or the name of a column.

    Raises:
        ConfigError: There is no such column.
        FormatError: The column is damaged or stale.
    """
    known = column_names(folder.storage)
    if by == _KEY and _KEY not in known:
        keys = [folder.index.key(sample) for sample in samples.tolist()]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    if by not in known:
        every = [_KEY, *known]
        raise ConfigError(
            f"there is no column {by!r} to sort by{did_you_mean(by, every)}",
            at=folder.path,
            hint=f"write it: energon stats {folder.path} --write {by}",
        )
    column = open_column(folder.storage, folder.index, by)
    values, missing = column.values[samples], ~column.is_known(samples)
    if column.record.categories:
        names = np.array(column.record.categories)
        rank = np.empty(len(names), np.int64)
        rank[np.argsort(names, kind="stable")] = np.arange(len(names))
        missing = missing | (values < 0) | (values >= len(names))
        values = rank[np.where(missing, 0, values).astype(np.int64)]
    return np.lexsort((np.where(missing, 0, values), missing)).astype(np.int64)
