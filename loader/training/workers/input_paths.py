"""Find the stages of a chain by the paths of their lanes."""

from __future__ import annotations

from typing import Any

from ...pipeline.contract.lane import Lane
from ...pipeline.contract.stage import IteratedDataset, SavableDataset
from ...pipeline.reading.read import ReadDataset
from ...pipeline.stages.blend import BlendDataset
from ...pipeline.stages.concat import ConcatDataset
from ...pipeline.stages.repeat import RepeatDataset

_MAX_DIGITS = 15


def input_at(dataset: SavableDataset[Any], lane: Lane, path: str) -> tuple[SavableDataset[Any], Lane] | None:
    """Return the stage below another one that a path leads to, and the lane for which it is opened; None for none.

    Args:
        dataset: The stage above.
        lane: Its lane.
        path: The path of the wanted stage's lane, which may be further below.
    """
    place = 0
    if isinstance(dataset, BlendDataset | ConcatDataset | RepeatDataset | IteratedDataset):
        # These open each source, or each pass, for a child lane; the path contains its number.
        number, slash, _ = path.removeprefix(lane.path).partition("/")
        if not slash or not number.isdecimal() or len(number) > _MAX_DIGITS:
            return None
        lane = lane.child(int(number))
        place = 0 if isinstance(dataset, RepeatDataset) else int(number)
        if isinstance(dataset, BlendDataset):
            if place not in dataset.origins:
                return None
            place = dataset.origins.index(place)
        if isinstance(dataset, IteratedDataset):
            place %= len(dataset.inputs)  # a later pass has another lane
    return (dataset.inputs[place], lane) if place < len(dataset.inputs) else None


def reader_at(dataset: SavableDataset[Any], lane: Lane, path: str) -> tuple[ReadDataset, Lane] | None:
    """Return the reader that a path leads to, and the lane for which it is opened; None if there is none."""
    found: tuple[SavableDataset[Any], Lane] | None = dataset, lane
    while found is not None and found[0].inputs:
        found = input_at(*found, path)
    if found is None or not isinstance(found[0], ReadDataset) or found[1].path != path:
        return None
    return found[0], found[1]
