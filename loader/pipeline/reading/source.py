"""The interface of sources: datasets whose samples are numbered from 0, read as bytes and built into samples.

:class:`.DatasetSource` is a dataset on disk, and :class:`.JoinedSource` several datasets joined row by row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from ...dataset.join import AnyDataset
from ...dataset.selection import Selection
from ...dataset.turns import Turns
from ...format.documents.providers import LoadRequest
from ...samples.building.sample_builder import RawSample
from .recipe import Recipe


class RawRow(NamedTuple):
    """The bytes of one row of a join."""

    source: int  # number of the join in the chain
    number: int  # number of the row
    members: tuple[RawSample | None, ...]  # the raw sample of each member dataset; None for a missing one


Raw = RawSample | RawRow


class Source(ABC):
    """One dataset of a run: where its samples are, and how they are built; open handles are dropped when it is pickled.

    Attributes:
        request: What was loaded, and the choices made about it.
        members: The :class:`.DatasetSource` of each dataset that samples are read from; the first one has the keys.
        folder: The opened dataset, or the joined ones.
        selection: The samples that were chosen: of the dataset, or rows of the join.
        turns: The chosen samples that take a turn in a run.
        recipe: How samples are built.
    """

    request: LoadRequest
    members: tuple[Any, ...]
    folder: AnyDataset
    selection: Selection
    turns: Turns
    recipe: Recipe

    @property
    @abstractmethod
    def samples(self) -> int:
        """Number of samples that take a turn.

        Raises:
            EmptyDatasetError: There are no samples, or all are excluded: an endless order would search forever for
                a sample to yield.
        """

    def begin_without(self, left_out: str | None) -> None:  # noqa: B027 - a join has no exclusions of its own
        """Let the samples of a saved run's ``left_out`` take no turn; None: the samples that are excluded now."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return plain data that differs for other samples; compared when a state is restored."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the source in one line."""
