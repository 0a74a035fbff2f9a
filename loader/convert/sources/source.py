"""The interface of a source: it lists its samples as rows, and reads what only it can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ..rows.row import CellRef, Row

__all__ = ["CellReader", "SampleProposal", "Source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleProposal:
    """The sample type that fits the rows of a source.

    Attributes:
        sample_type: Name of the type.
        field_map: Field → expression; empty for the crude type, and for one that generated code builds.
    """

    sample_type: str
    field_map: Mapping[str, str] = field(default_factory=dict)


class CellReader(Protocol):
    """An open source in a worker."""

    def read(self, cell: CellRef) -> bytes:
        """Return the contents of a cell.

        Raises:
            SampleError: The value cannot be read or written as a part.
        """

    def close(self) -> None:
        """Close what is open."""


class Source(Protocol):
    """A source of samples; it pickles, since workers read its cells."""

    @property
    def kind(self) -> str:
        """Name of the format, as ``--from`` takes it."""

    @property
    def path(self) -> str:
        """The folder, file or URL."""

    def rows(self, *, shuffled: bool, scratch: str) -> Iterator[Row]:
        """Yield the samples, in an order that depends on the source alone.

        Args:
            shuffled: The rows will be read in any order. A source that reads them fast in its own order alone, such
                as a Parquet file, then yields their values instead of cells.
            scratch: A folder for files that rows reference, such as decompressed archives; it is removed at the end.

        Raises:
            ConfigError: The source has another structure than its kind.
            StorageError: It cannot be read.
        """

    def proposal(self) -> SampleProposal | None:
        """Return the sample type of a source that has a fixed one; None where the parts tell it."""

    def open_cells(self) -> CellReader:
        """Open the source for :class:`CellRef`; called in each worker once."""
