"""What a chain of stages knows of a dataset: its samples, numbered from 0, and how their bytes become samples.

:class:`~loader.pipeline.dataset_leaf.DatasetLeaf` is a prepared dataset, :class:`~loader.pipeline.jsonl_leaf.JsonlLeaf`
a JSONL file, and :class:`~loader.pipeline.joined_leaf.JoinedLeaf` several datasets joined row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..format.sample_locations import SampleLocations
from ..samples.decoder import SampleDecoder
from ..samples.source_info import SourceInfo
from ..storage import ReadableFile
from .leaf_stores import LeafStores

__all__ = ["Integers", "Leaf", "RawSample", "ShardLeaf"]

Integers = npt.NDArray[np.int64]

RawSample = tuple[int, int, str, str, Any]
"""The bytes of one sample: the number of its leaf in the chain, its number in the dataset's index, the name of its
shard, its bare key, and its parts by name in their order in the shard. Of a join: its row, no names, and the raw
samples of its members, None where a member has none."""


class Leaf(Protocol):
    """One dataset of a run; what is opened stays behind when it travels to another process."""

    @property
    def samples(self) -> int:
        """How many samples the leaf has, after its subset, excluded ones included.

        Raises:
            ConfigError: It has none.
        """

    @property
    def largest_shard(self) -> int:
        """How many samples its largest shard has."""

    @property
    def is_crude(self) -> bool:
        """Its samples are dicts of parts, for cookers."""

    @property
    def decoder(self) -> SampleDecoder | None:
        """Decodes the parts; None leaves them bytes."""

    @property
    def stores(self) -> LeafStores:
        """What a cooker may ask for beside its samples."""

    @property
    def ranges(self) -> tuple[Integers, Integers]:
        """For each run of samples that are neighbours in the index: its first sample in the leaf, and in the index."""

    @property
    def excluded(self) -> Integers:
        """The numbers in the index of all samples that are left out, ascending."""

    @property
    def build(self) -> Callable[[RawSample, tuple[Any, ...]], Any]:
        """What makes a sample of a raw one and its restore key.

        It raises SampleError where a part does not decode, or a field is missing.
        """

    def sources(self, raw: RawSample) -> tuple[SourceInfo, ...]:
        """Say where the parts of a sample lie."""

    def place_of(self, index: int) -> str:
        """Say where a sample lies, by its number in the index, without reading it."""

    def identity(self) -> dict[str, Any]:
        """Give what tells whether another run reads the same samples: plain data, compared on restoring."""

    def describe(self) -> str:
        """Say in a line what it is."""


class ShardLeaf(Leaf, Protocol):
    """A leaf whose samples are runs of bytes in shards."""

    @property
    def shard_names(self) -> list[str]:
        """The names of the dataset's shards, by number."""

    def locate(self, indexes: Integers, found: SampleLocations | None = None) -> SampleLocations:
        """Find the bytes of the parts that are needed, of samples by their numbers in the index; add to ``found``."""

    def shard_path(self, shard: int) -> str:
        """Give the path of a shard, for messages."""

    def open_shard(self, shard: int) -> ReadableFile:
        """Open a shard, and check that it is the one that was indexed.

        Raises:
            FormatError: It is another one.
            StorageError: It is missing or cannot be read.
        """

    def read_far_apart(self, file: ReadableFile, index: int) -> dict[str, bytes]:
        """Read the parts of a sample one by one, where they lie too far apart for one read."""
