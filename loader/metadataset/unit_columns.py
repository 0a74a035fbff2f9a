"""Compare the units of blends with the columns of their datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from ..errors import EnergonError
from ..format.columns.column_files import column_names
from ..format.dataset_folder import DatasetFolder
from ..format.documents.messages import nearest_hint
from ..format.documents.providers import is_record_file
from .documents.leaf_plan import LeafPlan
from .plans.blend_units import SAMPLES

__all__ = ["UnitColumns"]

_MAX_NAMED = 3  # datasets, in a message


class UnitColumns:
    """Finder of units that are probably misspelt, and of datasets without a column that others have.

    It lists the columns of each dataset once.
    """

    def __init__(self) -> None:
        self._columns = cache(_columns)

    def faults(self, leaves: Iterable[LeafPlan]) -> Iterator[str]:
        """Describe the faults in the units of a tree.

        A unit that is no column of any dataset, nor similar to one, is a metric of the task encoder.

        Args:
            leaves: The leaves of the tree.
        """
        below: dict[str, dict[tuple[str, str | None], None]] = {}
        for leaf in leaves:
            dataset = leaf if leaf.join is None else leaf.join.members[0]
            for unit in dict.fromkeys(step.unit for step in leaf.blends if step.unit != SAMPLES):
                below.setdefault(unit, {})[dataset.path, dataset.meta_folder] = None
        for unit, datasets in below.items():
            columns = [self._columns(*dataset) for dataset in datasets]
            lacking = [path for (path, _), names in zip(datasets, columns, strict=True) if unit not in names]
            if len(lacking) < len(columns) and lacking:
                names = ", ".join(lacking[:_MAX_NAMED]) + (", …" if len(lacking) > _MAX_NAMED else "")
                yield (
                    f"weights are shares of {unit!r}, a column that {len(lacking)} of {len(columns)} datasets do not "
                    f"have: {names}"
                )
            elif lacking and (hint := nearest_hint(unit, {SAMPLES, *(name for names in columns for name in names)})):
                yield f"weights are shares of {unit!r}, which is no column of the datasets{hint}"


def _columns(path: str, meta_folder: str | None) -> tuple[str, ...]:
    """Return the columns of a dataset; none of files, and of datasets that cannot be opened."""
    if is_record_file(path):
        return ()
    try:
        return tuple(column_names(DatasetFolder(path, meta_folder=meta_folder).storage))
    except EnergonError:
        return ()
