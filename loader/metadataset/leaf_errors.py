"""Name the place in a metadataset in the errors of a leaf that cannot be opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import EnergonError
from .documents.leaf_plan import LeafPlan


@contextmanager
def named_by(leaf: LeafPlan, file: str) -> Iterator[None]:
    """Add the place that references a leaf to the errors of a block; those of a join name theirs.

    Args:
        leaf: The leaf; without a place, the errors stay as they are.
        file: The metadataset.
    """
    try:
        yield
    except EnergonError as error:
        if leaf.place and leaf.join is None:
            error.at = f"{error.at or leaf.path}, named by {leaf.place} in {file}"
        raise
