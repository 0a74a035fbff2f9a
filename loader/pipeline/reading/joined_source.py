"""Several datasets joined row by row, as a leaf."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import EmptyDatasetError, FormatError
from ...format.documents.load_request import LoadRequest
from ...format.documents.subset import resolve_subset
from ...samples.decoding.decoder import SampleDecoder
from ...samples.source_info import SourceInfo
from .dataset_source import DatasetSource
from .source import RawRow, SourceStores

__all__ = ["JoinedSource"]


@dataclass(frozen=True, kw_only=True, eq=False)
class JoinedSource:
    """Rows of samples, one of each member.

    Args:
        request: What to load: the metadataset that holds the join, with the join's subset and auxiliary stores.
        place: The join's place in the metadataset.
        members: The datasets; the first is the primary one.
        names: Argument names of the joiner; None if it takes the members in order.
        open_rows: Returns the members' sample numbers, shape (rows, members); -1 for a missing sample.
        joiner: Joins the samples of a row: ``joiner(*samples)``, or by name; None for a missing sample.
    """

    request: LoadRequest
    place: str
    members: tuple[DatasetSource, ...]
    names: tuple[str, ...] | None
    open_rows: Callable[[], IntArray]
    joiner: Callable[..., Any]

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def rows(self) -> IntArray:
        """The numbers of the samples in their members' indexes, memory-mapped; shape (rows, members), -1 for none."""
        return self.open_rows()

    def numbers(self, rows: IntArray) -> IntArray:
        """Give the numbers of the samples of some rows in their members' indexes, shape (rows, members); -1 for none.

        Raises:
            FormatError: There are no such samples.
        """
        numbers = np.asarray(self.rows[rows])
        if (numbers[:, 0] < 0).any() or (numbers >= self._members_samples).any():
            raise FormatError(
                "the prepared rows of this join name samples that there are not",
                at=f"{self.request.path}: {self.place}",
                hint=f"run: energon prepare {self.request.path}",
            )
        return numbers

    @cached_property
    def _members_samples(self) -> IntArray:
        return np.array([len(member.folder.index) for member in self.members])

    @property
    def samples(self) -> int:
        """How many rows are used.

        Raises:
            EmptyDatasetError: There is none.
            ConfigError: The join is not prepared.
        """
        start, stop = self._subset
        if stop <= start:
            raise EmptyDatasetError(
                "this join has no rows", at=f"{self.request.path}: {self.place}", hint="look at the keys it joins"
            )
        return stop - start

    @cached_property
    def _subset(self) -> tuple[int, int]:
        return resolve_subset(self.request.subset, len(self.rows), at=f"{self.request.path}: {self.place}")

    @property
    def largest_shard(self) -> int:
        """How many samples the primary dataset's largest shard has."""
        return self.members[0].largest_shard

    @property
    def is_crude(self) -> bool:
        """Whether the joiner is given crude samples, and may so give some."""
        return any(member.is_crude for member in self.members)

    @property
    def decoder(self) -> SampleDecoder | None:
        """That of the members."""
        return self.members[0].decoder

    @property
    def stores(self) -> SourceStores:
        """What a cooker may ask for beside its samples."""
        return SourceStores(aux_urls=self.request.aux, decoder=self.decoder)

    @property
    def ranges(self) -> tuple[IntArray, IntArray]:
        """The one run of rows: the first in the leaf, and in the join."""
        return np.zeros(1, np.int64), np.array([self._subset[0]])

    @property
    def excluded(self) -> IntArray:
        """No row: what a member leaves out was left out when the join was prepared."""
        return np.empty(0, np.int64)

    def build(self, raw: RawRow, restore_key: tuple[Any, ...]) -> Any:
        """Make the sample of a row.

        Raises:
            SampleError: A part does not decode, or a field is missing.
        """
        samples = [
            None if one is None else member.build(one, restore_key)
            for member, one in zip(self.members, raw.members, strict=True)
        ]
        if self.names is None:
            return self.joiner(*samples)
        return self.joiner(**dict(zip(self.names, samples, strict=True)))

    def sources(self, raw: RawRow) -> tuple[SourceInfo, ...]:
        """Say where the parts of a row lie."""
        pairs = zip(self.members, raw.members, strict=True)
        return tuple(source for member, one in pairs if one is not None for source in member.sources(one))

    def place_of(self, index: int) -> str:
        """Say where the samples of a row lie, by its number, without reading them."""
        pairs = zip(self.members, self.rows[index].tolist(), strict=True)
        return " with ".join(member.place_of(number) for member, number in pairs if number >= 0)

    def identity(self) -> dict[str, Any]:
        """Give what tells whether another run reads the same rows."""
        start, stop = self._subset
        head, tail = np.ascontiguousarray(self.rows[start : start + 1024]), np.ascontiguousarray(self.rows[-1024:])
        return {
            "path": f"{self.request.path}: {self.place}",
            "samples": stop - start,
            "which": zlib.crc32(
                np.array([start, stop]).tobytes(), zlib.crc32(tail.tobytes(), zlib.crc32(head.tobytes()))
            ),
            "members": [member.identity() for member in self.members],
        }

    def describe(self) -> str:
        """Say in a line what it is."""
        return f"{self.request.path}: {self.place}, {len(self.members)} datasets joined: {self.samples} samples"
