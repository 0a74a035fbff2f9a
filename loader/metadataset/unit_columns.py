"""Compare the units of blends with the columns of their datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from ..errors import EnergonError
from ..format.columns.column_files import column_names
from ..format.dataset_folder import DatasetFolder
from ..format.documents.messages import nearest_hint
from ..format.documents.providers import is_record_file
from .documents.leaf_plan import JoinMember, LeafPlan
from .plans.blend_units import SAMPLES

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
            leaves: The leaves of the tree whose datasets exist.
        """
        below: dict[str, dict[tuple[str, str | None], None]] = {}
        for leaf in leaves:
            dataset = primary_of(leaf)
            for unit in dict.fromkeys(step.unit for step in leaf.blends if step.unit != SAMPLES):
                below.setdefault(unit, {})[dataset.path, dataset.meta_folder] = None
        for unit, datasets in below.items():
            known = {dataset: names for dataset in datasets if (names := self._columns(*dataset)) is not None}
            columns = [*known.values()]
            lacking = [path for (path, _), names in known.items() if unit not in names]
            if len(lacking) < len(columns) and lacking:
                shown = ", ".join(lacking[:_MAX_NAMED]) + (", …" if len(lacking) > _MAX_NAMED else "")
                yield (
                    f"weights are shares of {unit!r}, a column that {len(lacking)} of {len(columns)} datasets do not "
                    f"have: {shown}"
                )
            elif lacking and (hint := nearest_hint(unit, {SAMPLES, *(name for names in columns for name in names)})):
                yield f"weights are shares of {unit!r}, which is no column of the datasets{hint}"


def primary_of(leaf: LeafPlan) -> LeafPlan | JoinMember:
    """Return the dataset whose columns a leaf has: of a join, the primary one."""
    return leaf if leaf.join is None else leaf.join.members[0]


def _columns(path: str, meta_folder: str | None) -> tuple[str, ...] | None:
    """Return the columns of a dataset; files have none. None if it cannot be opened."""
    if is_record_file(path):
        return ()
    try:
        return tuple(column_names(DatasetFolder(path, meta_folder=meta_folder).storage))
    except EnergonError:
        return None
