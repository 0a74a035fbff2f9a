"""The base class of sources: a source lists its samples as rows, and reads what only it can read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ...accounting import Account
from ...errors import SampleError
from ..annotations.listed_pictures import ListedPictures
from ..rows.row import CellRef, Row, UrlRef


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleProposal:
    """The sample type that fits the rows of a source.

    Attributes:
        sample_type: Name of the type.
        field_map: Field → expression; empty for the crude type, and for one that generated code builds.
    """

    sample_type: str
    field_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One listing of sources.

    Attributes:
        shuffled: The rows will be read in any order. A source that reads them fast in its own order alone, such as a
            Parquet file, then yields their values instead of cells.
        scratch: A folder for files that rows reference, such as decompressed archives; it is removed at the end.
        account: The fate of each file and member. A source counts what it sees, what goes into rows, and what it leaves
            out; the caller counts the rows.
        notes: What users should know about the source although nothing is lost, a sentence each.
        pictures: The pictures that annotations name; the caller accounts for them after all sources.
    """

    shuffled: bool = False
    scratch: str = ""
    account: Account = field(default_factory=Account)
    notes: list[str] = field(default_factory=list)
    pictures: ListedPictures = field(default_factory=ListedPictures)


class CellReader(Protocol):
    """An open source in a worker."""

    def read(self, cell: CellRef) -> bytes | UrlRef:
        """Return the contents of a cell, or the URL of its file.

        Raises:
            SampleError: The value cannot be read or written as a part.
        """

    def close(self) -> None:
        """Close what is open."""


class NoCells:
    """The reader of a source without cells: its rows reference files, ranges and values."""

    def read(self, cell: CellRef) -> bytes:
        """Raise a ``SampleError``."""
        raise SampleError(f"this source has no cells, so no value {cell.column!r}")

    def close(self) -> None:
        """Do nothing."""


class Source(ABC):
    """A source of samples; it pickles, since workers read its cells.

    Attributes:
        kind: Name of the format, as ``--from`` takes it.
        path: The folder, file or URL.
    """

    __slots__ = ()
    kind: str
    path: str

    @abstractmethod
    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the samples, in an order that depends on the source alone.

        Args:
            listing: Its settings, and its account.

        Raises:
            ConfigError: The source has another structure than its kind.
            FormatError: A file is damaged.
            StorageError: It cannot be read.
        """

    def proposal(self) -> SampleProposal | None:
        """Return the sample type of a source that has a fixed one; None where the parts tell it."""
        return None

    def open_cells(self) -> CellReader:
        """Open the source for :class:`CellRef`; called in each worker once."""
        return NoCells()
