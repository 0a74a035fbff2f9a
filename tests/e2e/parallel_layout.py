"""Layout of parallel ranks: tensor-parallel ranks are neighbours, then data-parallel ranks, then pipeline stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import distributed


@dataclass(frozen=True, kw_only=True)
class Place:
    """Coordinates of a rank in a layout."""

    tensor: int
    data: int
    stage: int


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Sizes of tensor, data and pipeline parallelism."""

    tensor: int = 1
    data: int = 1
    pipeline: int = 1

    def place(self, rank: int) -> Place:
        rest, tensor = divmod(rank, self.tensor)
        stage, data = divmod(rest, self.data)
        return Place(tensor=tensor, data=data, stage=stage)


def data_parallel_group(layout: Layout, rank: int) -> Any:
    """Create all data-parallel groups, which every rank must do, and return the group of a rank."""
    places = [layout.place(number) for number in range(layout.tensor * layout.data * layout.pipeline)]
    found = None
    for stage in range(layout.pipeline):
        for tensor in range(layout.tensor):
            members = [number for number, place in enumerate(places) if (place.stage, place.tensor) == (stage, tensor)]
            group = distributed.new_group(members)
            if rank in members:
                found = group
    return found
