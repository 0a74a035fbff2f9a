"""The name of a sample that killed the workers that read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..contract.state_schema import COUNT

if TYPE_CHECKING:  # programs that only read states need no sources, and no torch
    from .source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedSample:
    """A sample that is passed over as an excluded one is."""

    dataset: str  # path of its dataset
    uuid: str | None  # identifies the index of the dataset; None for a file without one
    number: COUNT  # the number of the sample in the index
    key: str  # the sample, as ``shard/key``

    def __str__(self) -> str:
        return f"{self.key!r} of {self.dataset}"

    def is_in(self, source: Source) -> bool:
        """Report whether the sample is one of a source; data that was prepared again is compared by its key."""
        identity = source.identity()
        if self.uuid is not None and identity.get("uuid") == self.uuid:
            return True
        if identity.get("path") != self.dataset:
            return False
        try:
            return source.folder.full_key(self.number) == self.key
        except (LookupError, ValueError):
            return False
