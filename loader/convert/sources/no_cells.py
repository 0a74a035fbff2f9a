"""The cells of a source that has none: its rows reference files, ranges and values."""

from __future__ import annotations

from ...errors import SampleError
from ..rows.row import CellRef

__all__ = ["NoCells"]


class NoCells:
    """Refuses to read cells."""

    def read(self, cell: CellRef) -> bytes:
        """Raise a ``SampleError``."""
        raise SampleError(f"this source has no cells, so no value {cell.column!r}")

    def close(self) -> None:
        """Do nothing."""
