"""Base class of the indexes of datasets: numbered samples in shards, each with a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right

from ...cached_property import cached_property
from .layout import Layout, PartStats, ShardEntry

__all__ = ["SampleIndex"]


class SampleIndex(ABC):
    """The index of a dataset. Samples are numbered from 0 over all shards, in the order of ``.info.json``.

    Args:
        uuid: Name of the index.
        layout: The shards and part names.
        path: Path of the index, for messages.
    """

    def __init__(self, uuid: str, layout: Layout, *, path: str) -> None:
        self.uuid = uuid
        self.layout = layout
        self.path = path
        """Path of the index folder, for messages."""

    def __len__(self) -> int:
        return self.layout.samples

    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        return self.layout.shards

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        return self.layout.part_names

    @cached_property
    def _shard_starts(self) -> list[int]:
        return [shard.first_sample for shard in self.layout.shards]

    @cached_property
    def _shard_by_name(self) -> dict[str, ShardEntry]:
        return {shard.name: shard for shard in self.layout.shards}

    @abstractmethod
    def key(self, sample: int) -> str:
        """Return the key of a sample, without its shard."""

    @abstractmethod
    def find(self, key: str) -> list[int]:
        """Return the samples of a bare key or of ``<shard>/<key>``, ascending; empty for an unknown key."""

    def full_key(self, sample: int) -> str:
        """Return ``<shard>/<key>``, unique in the dataset unless the shard repeats a key."""
        return f"{self.shard_of(sample).name}/{self.key(sample)}"

    def shard_of(self, sample: int) -> ShardEntry:
        """Return the shard of a sample."""
        if not 0 <= sample < len(self):
            raise IndexError(f"expected a sample in [0, {len(self)}), found {sample}")
        # Shards without samples start at the same sample as the next shard: the last of them has the sample.
        return self.layout.shards[bisect_right(self._shard_starts, sample) - 1]

    def samples_of(self, shard: ShardEntry) -> range:
        """Return the numbers of a shard's samples."""
        return range(shard.first_sample, shard.first_sample + shard.samples)

    def part_stats(self) -> tuple[PartStats, ...]:
        """Return the part names with their counts and sizes."""
        return self.layout.part_stats
