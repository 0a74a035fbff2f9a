"""What a chain of stages knows of a dataset: its samples, numbered from 0, and how their bytes become samples.

:class:`.DatasetSource` is a prepared dataset, :class:`.JsonlSource` a JSONL file, :class:`.JoinedSource` several
datasets joined row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ...arrays import IntArray
from ...cached_property import cached_property
from ...format.index.locations import SampleLocations
from ...samples.building.sample_builder import RawSample
from ...samples.decoding.decoder import SampleDecoder
from ...samples.source_info import SourceInfo
from ...storage import ReadableFile
from ...stores.aux_store import open_aux_store
from ...stores.dataset_file_store import DatasetFileStore
from ...stores.decode_file_store import DecodeFileStore
from ...stores.file_store import FileStore

__all__ = ["Raw", "RawRow", "ShardSource", "Source", "SourceStores"]


class RawRow(NamedTuple):
    """The bytes of one row of a join.

    Attributes:
        source: Number of the join in the chain.
        number: Number of the row.
        members: The raw samples of its members; None for a member without one.
    """

    source: int
    number: int
    members: tuple[RawSample | None, ...]


Raw = RawSample | RawRow


class Source(Protocol):
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
    def stores(self) -> SourceStores:
        """What a cooker may ask for beside its samples."""

    @property
    def ranges(self) -> tuple[IntArray, IntArray]:
        """For each run of samples that are neighbours in the index: its first sample in the leaf, and in the index."""

    @property
    def excluded(self) -> IntArray:
        """The numbers in the index of all samples that are left out, ascending."""

    @property
    def build(self) -> Callable[[Any, tuple[Any, ...]], Any]:
        """What makes a sample of a raw one and its restore key.

        It raises SampleError where a part does not decode, or a field is missing.
        """

    def sources(self, raw: Any) -> tuple[SourceInfo, ...]:
        """Say where the parts of a sample lie."""

    def place_of(self, index: int) -> str:
        """Say where a sample lies, by its number in the index, without reading it."""

    def identity(self) -> dict[str, Any]:
        """Give what tells whether another run reads the same samples: plain data, compared on restoring."""

    def describe(self) -> str:
        """Say in a line what it is."""


class ShardSource(Source, Protocol):
    """A leaf whose samples are runs of bytes in shards."""

    @property
    def shard_names(self) -> list[str]:
        """The names of the dataset's shards, by number."""

    def locate(self, indexes: IntArray, found: SampleLocations | None = None) -> SampleLocations:
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


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceStores:
    """The stores of a leaf; each process opens them when they are first asked for.

    Args:
        path: The folder of the leaf's own dataset; None where it has none that parts could be found in by name.
        aux_urls: The URLs of its auxiliary stores, by name.
        decoder: Decodes what they hold; None leaves it bytes.
        trust_code: Pickles in them may be loaded.
    """

    path: str | None = None
    aux_urls: Mapping[str, str] = field(default_factory=dict)
    decoder: SampleDecoder | None = None
    trust_code: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def aux(self) -> dict[str, FileStore[Any]]:
        """The auxiliary stores by name.

        Raises:
            StorageError: A folder is missing or not prepared, or a protocol is not served.
        """
        return {name: self._decoded(open_aux_store(url)) for name, url in self.aux_urls.items()}

    @cached_property
    def primary(self) -> FileStore[Any] | None:
        """The store of the leaf's own parts."""
        return None if self.path is None else self._decoded(DatasetFileStore(self.path))

    def _decoded(self, store: FileStore[bytes]) -> FileStore[Any]:
        if self.decoder is None:
            return store
        return DecodeFileStore(store, decoder=self.decoder, trust_code=self.trust_code)
