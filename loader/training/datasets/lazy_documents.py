"""Read the documents of datasets that are read at their first use, so that one rank reads them for all."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ...errors import EnergonError
from ...format.columns.column_files import column_names, read_record
from ...pipeline.reading.dataset_source import DatasetSource
from ...pipeline.reading.joined_source import JoinedSource
from ...pipeline.reading.source import Source


def read_lazy_documents(source: Source, *, units: Iterable[str]) -> None:
    """Read the dataset file and the index's documents of a source, or of each member of a join, and those of columns.

    Errors are left to the first use, which finds them again.

    Args:
        source: The source.
        units: The names of columns that a blend may count.
    """
    members = source.members if isinstance(source, JoinedSource) else (source,)
    for place, member in enumerate(members):
        with suppress(EnergonError):
            _ = member.is_crude
        if isinstance(member, DatasetSource):
            with suppress(EnergonError):
                _ = member.folder.index.layout
            if not place:  # of a join, the primary dataset has the columns
                _read_columns(member, units)


def _read_columns(source: DatasetSource, units: Iterable[str]) -> None:
    for unit in units:
        with suppress(EnergonError):
            storage = source.folder.storage
            if unit in column_names(storage):
                _ = read_record(storage, unit)
