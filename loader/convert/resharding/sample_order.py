"""Sort samples by their keys, or by values."""

from __future__ import annotations

import numpy as np

from ...arrays import IntArray
from ...format.dataset_folder import DatasetFolder
from ...format.query import Compute, DatasetValues

_KEY = "key"


def sorted_rows(folder: DatasetFolder, samples: IntArray, by: str, compute: Compute | None = None) -> IntArray:
    """Return the positions in ``samples`` in sorted order; equal ones keep their order, those without a value are last.

    Args:
        folder: The dataset.
        samples: Numbers of samples, ascending.
        by: ``"key"``, or the name of a column or value.
        compute: Reads a value that is no column; None refuses it.

    Raises:
        ConfigError: There is no such column or value.
        FormatError: The column is damaged or stale.
    """
    if by == _KEY and _KEY not in folder.column_names():
        keys = [folder.index.key(sample) for sample in samples.tolist()]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    found = DatasetValues(folder, [by], samples, compute).values(by, samples)
    values, missing = found.values, ~found.known
    if found.categories is not None:
        names = np.array(found.categories)
        rank = np.empty(len(names), np.int64)
        rank[np.argsort(names, kind="stable")] = np.arange(len(names))
        missing = missing | (values < 0) | (values >= len(names))
        values = rank[np.where(missing, 0, values).astype(np.int64)]
    return np.lexsort((np.where(missing, 0, values), missing)).astype(np.int64)
