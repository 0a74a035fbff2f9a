"""The row groups of a table, which are decoded as a whole, as the samples of a run are numbered."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...arrays import IntArray


@dataclass(frozen=True, eq=False)
class RowGroupEnds:
    """Hold where the row groups of a table end.

    Attributes:
        ends: Shape (groups,): the number behind the last sample of each group, ascending; none is empty.
        group_bytes: Mean size of a decoded group.
    """

    ends: IntArray
    group_bytes: int
    starts: IntArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", np.concatenate([[0], self.ends[:-1]]))

    @property
    def size_bytes(self) -> int:
        return len(self.ends) * self.group_bytes
