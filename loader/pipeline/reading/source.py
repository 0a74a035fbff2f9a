"""The interface of sources: datasets whose samples are numbered from 0, read as bytes and built into samples.

:class:`.DatasetSource` is a prepared dataset, :class:`.RecordSource` a single file of samples, :class:`.JoinedSource`
several datasets joined row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ...arrays import IntArray
from ...cached_property import cached_property
from ...format.documents.load_request import LoadRequest
from ...format.filters.rows import FilterRows
from ...format.index.locations import SampleLocations
from ...samples.building.sample_builder import RawSample
from ...samples.decoding.decoder import AnyDecoder, whole_sample_decoder
from ...samples.source_info import SourceInfo
from ...storage import ReadableFile
from ...stores.aux_store import open_aux_store, open_own_store
from ...stores.decode_file_store import DecodeFileStore
from ...stores.file_store import FileStore
from ...stores.record_file_stores import BinIdxFileStore


class RawRow(NamedTuple):
    """The bytes of one row of a join.

    Attributes:
        source: Number of the join in the chain.
        number: Number of the row.
        members: The raw sample of each member dataset; None for a missing one.
    """

    source: int
    number: int
    members: tuple[RawSample | None, ...]


Raw = RawSample | RawRow


class Source(Protocol):
    """One dataset of a run; open handles are dropped when it is pickled."""

    @property
    def request(self) -> LoadRequest:
        """The request: what was loaded, and the choices made about it."""

    @property
    def samples(self) -> int:
        """Number of samples in the subset of the split part, excluded ones included.

        Raises:
            ConfigError: There are none.
        """

    @property
    def largest_shard(self) -> int:
        """Number of samples in the largest shard."""

    @property
    def is_one_shard(self) -> bool:
        """True if all samples are in one shard, or one file."""

    @property
    def is_crude(self) -> bool:
        """True if samples are dicts of parts, for cookers."""

    @property
    def sample_class(self) -> type[Any]:
        """The class of the samples."""

    @property
    def accepts_options(self) -> bool:
        """True if a dataset class of the user's received the caller's other arguments."""

    @property
    def decoder(self) -> AnyDecoder | None:
        """Decoder of the parts; None leaves them bytes."""

    @property
    def sample_bytes(self) -> int:
        """Average size of a sample in bytes, which decides how many are fetched ahead."""

    @property
    def is_remote(self) -> bool:
        """True if samples are fetched from an object store."""

    @property
    def stores(self) -> SourceStores:
        """Stores that a cooker may use in addition to the sample."""

    @property
    def ranges(self) -> tuple[IntArray, IntArray]:
        """Runs of neighbours in the index: number of the first sample of each in the source, and in the index.

        With a filter, runs of neighbours in the filter's rows, which are numbers of samples in the index.
        """

    @property
    def filter(self) -> FilterRows | None:
        """The filter that selects samples; None keeps all."""

    @property
    def kept_share(self) -> float:
        """Share of the samples that the filter keeps, in [0, 1]; 1 without a filter."""

    @property
    def excluded(self) -> IntArray:
        """Numbers in the index of all excluded samples, ascending."""

    @property
    def build(self) -> Callable[[Any, tuple[Any, ...]], Any]:
        """Function that builds a sample from a raw sample and its restore key.

        It raises SampleError if a part does not decode, or a field is missing.
        """

    def key_of(self, raw: Any) -> str:
        """Return the ``__key__`` of a raw sample."""

    def sources(self, raw: Any) -> tuple[SourceInfo, ...]:
        """Return the shard and part names that a sample was read from."""

    def place_of(self, index: int) -> str:
        """Describe the location of a sample by its number in the index, without reading it."""

    def full_key(self, index: int) -> str:
        """Return ``shard/key`` of a sample by its number in the index, or what names it without an index."""

    def find(self, key: str) -> list[int]:
        """Return the numbers in the index of the samples that have a key, ascending."""

    def identity(self) -> dict[str, Any]:
        """Return plain data that differs for other samples; compared when a state is restored."""

    def describe(self) -> str:
        """Describe the source in one line."""


class ShardSource(Source, Protocol):
    """A source whose samples are byte ranges of shards."""

    @property
    def shard_names(self) -> list[str]:
        """Names of the dataset's shards, by number."""

    @property
    def shard_starts(self) -> list[int]:
        """Number of the first sample of each shard, in the index."""

    def bare_key(self, index: int) -> str:
        """Return the key of a sample in its shard, by its number in the index."""

    def locate(self, indexes: IntArray, found: SampleLocations | None = None) -> SampleLocations:
        """Locate the needed parts of samples, by their numbers in the index; append to ``found`` if it is given."""

    def shard_path(self, shard: int) -> str:
        """Return the path of a shard, for messages."""

    def open_shard(self, shard: int) -> ReadableFile:
        """Open a shard, and check that it has not changed since it was indexed.

        Raises:
            FormatError: It has changed.
            StorageError: It is missing or cannot be read.
        """

    def read_far_apart(self, file: ReadableFile, index: int) -> dict[str, Any]:
        """Read the parts of a sample one by one; they are too far apart for one read."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceStores:
    """The stores of a source; each process opens a store on first use.

    Args:
        path: Folder of the source's own dataset, or its file of samples; None if its parts have no names.
        meta_folder: Folder to use instead of its ``.nv-meta``.
        aux_urls: Name of an auxiliary store → its URL.
        aux_meta_folders: Name of an auxiliary store → the folder to use instead of its ``.nv-meta``.
        decoder: Decoder of their content; None leaves it bytes.
        trust_code: Allow pickles in them to be loaded.
    """

    path: str | None = None
    meta_folder: str | None = None
    aux_urls: Mapping[str, str] = field(default_factory=dict)
    aux_meta_folders: Mapping[str, str] = field(default_factory=dict)
    decoder: AnyDecoder | None = None
    trust_code: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def aux(self) -> dict[str, FileStore[Any]]:
        """Auxiliary stores by name.

        Raises:
            StorageError: A folder is missing or not prepared, or a protocol is not supported.
        """
        return {
            name: self._decoded(open_aux_store(url, meta_folder=self.aux_meta_folders.get(name)))
            for name, url in self.aux_urls.items()
        }

    @cached_property
    def own(self) -> FileStore[Any] | None:
        """Store of the source's own parts, as bytes; None if they have no names."""
        return None if self.path is None else open_own_store(self.path, meta_folder=self.meta_folder)

    @cached_property
    def primary(self) -> FileStore[Any] | None:
        """Store of the source's own parts."""
        return None if self.own is None else self._decoded(self.own)

    def _decoded(self, store: FileStore[Any]) -> FileStore[Any]:
        decoder: Any = self.decoder
        if decoder is None or whole_sample_decoder(decoder) is not None or isinstance(store, BinIdxFileStore):
            return store
        return DecodeFileStore(store, decoder=decoder, trust_code=self.trust_code)
