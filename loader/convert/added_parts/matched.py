"""The rows of a source whose keys are those of a dataset's samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.index.dataset_index import DatasetIndex
from ..rows.row import Row
from ..sources.source import CellReader, Listing, Source

ALL_PART = "all"
"""The one split part of a dataset of added parts: the split of the first dataset applies."""

_MAX_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedSource(Source):
    """The rows of another source that belong to samples of a dataset, under the keys of these.

    Attributes:
        source: The other source.
        dataset: Path of the dataset.
        rename: Part name → new name.
        kind: Name of the format.
    """

    source: Source
    dataset: str
    rename: Mapping[str, str] = field(default_factory=dict)
    kind: str = "added parts"

    @property
    def path(self) -> str:  # type: ignore[override]  # it never changes
        """Path of the other source."""
        return self.source.path

    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the matching rows in the order of the other source."""
        index = DatasetFolder(self.dataset).tar_index
        for row in self.source.rows(listing):
            samples = _find(index, row.key)
            if not samples:
                listing.account.see("rows")
                listing.account.leave("rows", "L112", row.key, size_bytes=max(0, row.size_bytes))
            else:
                parts = {self.rename.get(name, name): part for name, part in row.parts.items()}
                yield msgspec.structs.replace(row, key=index.key(samples[0]), parts=parts, split=ALL_PART)

    def open_cells(self) -> CellReader:
        """Open the other source."""
        return self.source.open_cells()


def _find(index: DatasetIndex, key: str) -> list[int]:
    """Return the samples that a join matches with a key; ``<shard>/<key>`` names one, and so all of its bare key."""
    found = index.find_first_full(key)
    return found if not found or index.key(found[0]) == key else index.find(index.key(found[0]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatchCount:
    """Counts of rows and samples that match.

    Attributes:
        matched: Number of rows that belong to samples.
        unused: Number of rows that belong to none.
        unused_rows: The first of these.
        parts: Part name → number of matched rows that have it, under its new name.
        has_parts: Shape (n,): True for the samples of the dataset that have a row.
    """

    matched: int
    unused: int
    unused_rows: tuple[str, ...]
    parts: Mapping[str, int]
    has_parts: npt.NDArray[np.bool_]


def count_matches(source: MatchedSource, folder: DatasetFolder, *, scratch: str) -> MatchCount:
    """Compare the keys of a source with those of a dataset.

    Args:
        source: The source.
        folder: The dataset.
        scratch: A folder for temporary files.

    Raises:
        ConfigError: Two rows belong to the same sample, so which one is used would be arbitrary.
    """
    index = folder.tar_index
    has_parts = np.zeros(len(index), np.bool_)
    parts: dict[str, int] = {}
    matched, unused, shown = 0, 0, list[str]()
    for row in source.source.rows(Listing(scratch=scratch)):
        samples = _find(index, row.key)
        if not samples:
            unused += 1
            shown += [row.key] * (len(shown) < _MAX_SHOWN)
            continue
        if has_parts[samples[0]]:
            raise ConfigError(
                f"two rows belong to the sample {index.full_key(samples[0])!r}; one of them is {row.origin or row.key}",
                at=source.path,
                hint="remove one of them, or give the samples of the dataset unique keys: energon prepare"
                " --fix-duplicates",
            )
        has_parts[samples] = True
        matched += 1
        for name in row.parts:
            new = source.rename.get(name, name)
            parts[new] = parts.get(new, 0) + 1
    return MatchCount(matched=matched, unused=unused, unused_rows=tuple(shown), parts=parts, has_parts=has_parts)
