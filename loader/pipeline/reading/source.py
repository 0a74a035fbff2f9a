"""The interface of sources: datasets whose samples are numbered from 0, read as bytes and built into samples.

:class:`.DatasetSource` is a dataset on disk, and :class:`.JoinedSource` several datasets joined row by row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...dataset.join import Samples
from ...dataset.selection import Selection
from ...format.dataset_ref import DatasetRef
from ...format.documents.providers import LoadRequest
from ...samples.building.sample_builder import RawSample
from ...samples.decoding.decoder import AnyDecoder, whole_sample_decoder
from ...samples.types import CrudeSample
from ...stores.aux_store import open_aux_store, open_own_store
from ...stores.decode_store import DecodeFileStore
from ...stores.file_store import FileStore
from ...stores.record_file_stores import BinIdxFileStore


class RawRow(NamedTuple):
    """The bytes of one row of a join."""

    source: int  # number of the join in the chain
    number: int  # number of the row
    members: tuple[RawSample | None, ...]  # the raw sample of each member dataset; None for a missing one


Raw = RawSample | RawRow


class Source(ABC):
    """One dataset of a run, and how its samples are built; open handles are dropped when it is pickled.

    What follows from its members is defined here; a :class:`.DatasetSource`, its own only member, defines it itself.

    Attributes:
        request: What was loaded, and the choices made about it.
        decoder: Decoder of the parts; None leaves them bytes.
        members: The :class:`.DatasetSource` of each dataset that samples are read from; the first one has the keys.
        selection: The samples that were chosen: of the dataset, or rows of the join.
        build: Builds a sample from a raw sample and its restore key. It raises SampleError if a part does not decode,
            or a field is missing.
    """

    request: LoadRequest
    decoder: AnyDecoder | None
    members: tuple[Any, ...]
    selection: Selection
    build: Callable[[Any, tuple[Any, ...]], Any]

    @property
    @abstractmethod
    def samples(self) -> int:
        """Number of samples that take a turn: of the subset of the split part, without ``left_out``.

        Raises:
            EmptyDatasetError: There are no samples, or all are excluded: an endless order would search forever for
                a sample to yield.
        """

    @property
    def sample_class(self) -> type[Any]:
        """The class of the first member's samples: a joiner may return any object."""
        sample_class: type[Any] = self.members[0].sample_class
        return sample_class

    @property
    def is_crude(self) -> bool:
        """True if samples are dicts of parts, for cookers; a joiner that receives some may return some."""
        return any(issubclass(member.sample_class, CrudeSample) for member in self.members)

    @property
    def accepts_options(self) -> bool:
        """True if a dataset class of the user's received the caller's other arguments, for each member."""
        return all(member.accepts_options for member in self.members)

    @property
    @abstractmethod
    def stores(self) -> SourceStores:
        """Stores that a cooker may use in addition to the sample."""

    @property
    @abstractmethod
    def ranges(self) -> tuple[IntArray, IntArray]:
        """Runs of neighbours in the index: number of the first sample of each in the source, and in the index.

        With a filter, runs of neighbours in the filter's rows, which are numbers of samples in the index.
        """

    @property
    def left_out(self) -> str:
        """The samples that take no turn, since they were excluded when the run began.

        They are counted over the subset of the split part, and packed by :func:`.pack_numbers`.
        """
        return ""

    def begin_without(self, left_out: str | None) -> None:  # noqa: B027 - a join has no exclusions of its own
        """Let the samples of a saved run's ``left_out`` take no turn; None: the samples that are excluded now."""

    @property
    def excluded(self) -> IntArray:
        """Numbers in the index of the samples that are passed over at their turn, ascending.

        These were excluded after the run began.
        """
        return np.empty(0, np.int64)

    @abstractmethod
    def named(self, raw: Any) -> dict[str, Any]:
        """Return the parts of a raw sample with its ``__key__`` and ``__sources__``, for the handlers of errors."""

    @property
    @abstractmethod
    def folder(self) -> Samples:
        """The opened dataset, or the joined ones."""

    is_join: ClassVar[bool] = False
    """True if a sample is a row of samples, of each member at most one."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return plain data that differs for other samples; compared when a state is restored."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the source in one line."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceStores:
    """The stores of a source; each process opens a store on first use.

    Args:
        ref: The source's own dataset, or its file of samples; None if its parts have no names.
        aux_refs: Name of an auxiliary store → the dataset, or folder of files.
        decoder: Decoder of their content; None leaves it bytes.
    """

    ref: DatasetRef | None = None
    aux_refs: Mapping[str, DatasetRef] = field(default_factory=dict)
    decoder: AnyDecoder | None = None
    trust_code: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def aux(self) -> dict[str, FileStore[Any]]:
        return {name: self._decoded(open_aux_store(ref)) for name, ref in self.aux_refs.items()}

    @cached_property
    def own(self) -> FileStore[Any] | None:
        """Store of the source's own parts, as bytes; None if they have no names."""
        return None if self.ref is None else open_own_store(self.ref)

    @cached_property
    def primary(self) -> FileStore[Any] | None:
        return None if self.own is None else self._decoded(self.own)

    def _decoded(self, store: FileStore[Any]) -> FileStore[Any]:
        decoder: Any = self.decoder
        if decoder is None or whole_sample_decoder(decoder) is not None or isinstance(store, BinIdxFileStore):
            return store
        return DecodeFileStore(store, decoder=decoder, trust_code=self.trust_code)
