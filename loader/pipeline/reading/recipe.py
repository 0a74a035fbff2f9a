"""Recipes of samples: build them from the bytes of their parts, and open the stores that a cooker may use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ...cached_property import cached_property
from ...dataset.dataset import Dataset
from ...errors import SampleError
from ...format.dataset_ref import DatasetRef
from ...format.documents.providers import LoadRequest, resolve_key_format
from ...format.nv_meta import FOLDER
from ...format.records.folder_index import RecordIndex
from ...samples.building.dataset_code import DatasetCode
from ...samples.building.described_dataset import DescribedDataset
from ...samples.building.sample_builder import RawSample, SampleBuilder, sources_of
from ...samples.decoding.decoder import AnyDecoder, part_function, whole_sample_decoder
from ...samples.decoding.media_values import DecodePart, decode_media
from ...samples.types import CrudeSample
from ...stores.aux_store import open_aux_store, open_own_store
from ...stores.decode_store import DecodeFileStore
from ...stores.file_store import FileStore
from ...stores.record_file_stores import BinIdxFileStore


class Recipe(ABC):
    """Build samples from raw samples.

    Attributes:
        members: The recipe of each dataset that samples are read from.
        decoder: Decoder of the parts; None leaves them bytes.
        build: Builds a sample from a raw sample and its restore key. It raises SampleError if a part does not decode,
            or a field is missing.
    """

    members: tuple[DatasetRecipe, ...]
    decoder: AnyDecoder | None
    build: Callable[[Any, tuple[Any, ...]], Any]

    @property
    def is_crude(self) -> bool:
        """True if samples are dicts of parts, for cookers; a joiner that receives some may return some."""
        return any(issubclass(member.builder.sample_class, CrudeSample) for member in self.members)

    @property
    def accepts_options(self) -> bool:
        """True if a dataset class of the user's received the caller's other arguments, for each member."""
        return all(member.builder.has_dataset_class for member in self.members)

    @property
    @abstractmethod
    def stores(self) -> SourceStores:
        """Stores that a cooker may use in addition to the sample."""

    @abstractmethod
    def named(self, raw: Any) -> dict[str, Any]:
        """Return the parts of a raw sample with its ``__key__`` and ``__sources__``, for the handlers of errors."""


@dataclass(frozen=True, eq=False)
class DatasetRecipe(Recipe):
    """Build the samples of one dataset, as its ``dataset.yaml`` or its description says.

    Args:
        described: The dataset class that is loaded; None to take what ``dataset.yaml`` names.
    """

    folder: Dataset
    request: LoadRequest
    decoder: AnyDecoder | None
    described: DescribedDataset[Any] | None = None

    @cached_property
    def builder(self) -> SampleBuilder:
        folder, described, request = self.folder, self.described, self.request
        config = folder.documents.config
        # Stored values, as in Parquet files, are decoded already.
        if described is not None and folder.holds_values:
            described = described.without_decoder()
        of_dataset = config.key_format if config is not None else None
        builder = SampleBuilder(
            described if described is not None else config,
            DatasetCode(folder.storage.path(FOLDER), request.ref.trust_code),
            dataset_path=folder.storage.path(""),
            decoder=None if folder.holds_values else self.decoder,
            key_format=resolve_key_format(request.key_format, of_dataset),
            sample_type=None if folder.is_file else request.sample_type,
            options=None if folder.is_file else request.options,
        )
        # Both are for messages only.
        builder.part_names = folder.names_of_parts
        if described is None and config is not None and config.field_map is not None:
            builder.config_file = folder.storage.path(f"{FOLDER}/{folder.ref.dataset_file}")
        return builder

    @cached_property
    def build(self) -> Callable[[RawSample, tuple[Any, ...]], Any]:  # type: ignore[override] # read only
        path, labels, folder = self.request.ref.path, self.request.subflavors, self.folder
        values = self._values if isinstance(folder.index, RecordIndex) else None
        return self.builder.raw_builder(path, labels, values=values, are_lines=folder.holds_lines)

    @cached_property
    def _decode_part(self) -> DecodePart | None:
        return part_function(self.decoder, trust_code=self.request.ref.trust_code)

    def _values(self, parts: Mapping[str, Any], sample: int) -> dict[str, Any]:
        """Return the values of a record by its number, with decoded media."""
        index = cast("RecordIndex", self.folder.index)
        values, media = index.values(parts, sample), index.media_of(sample)
        if not media or self._decode_part is None:
            return values
        try:
            return decode_media(values, media, self._decode_part)
        except SampleError as error:
            key = index.full_key(sample)
            source = self.folder.storage.path(index.shard_of(sample).name)
            raise SampleError(
                f"sample {key!r}: {error.message}", key=key, part=error.part, source=source, hint=error.hint
            ) from error.__cause__

    @property
    def members(self) -> tuple[DatasetRecipe, ...]:  # type: ignore[override] # read only
        return (self,)

    @property
    def stores(self) -> SourceStores:
        return SourceStores(
            ref=self.request.ref if self.folder.has_store else None,
            aux_refs=self.request.aux,
            decoder=self.decoder,
            trust_code=self.request.ref.trust_code,
        )

    def named(self, raw: RawSample) -> dict[str, Any]:
        return {**raw.parts, "__key__": self.builder.key_of(raw), "__sources__": sources_of(raw, self.request.ref.path)}


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
        return {name: self.decoded(open_aux_store(ref)) for name, ref in self.aux_refs.items()}

    @cached_property
    def own(self) -> FileStore[Any] | None:
        """Store of the source's own parts, as bytes; None if they have no names."""
        return None if self.ref is None else open_own_store(self.ref)

    @cached_property
    def primary(self) -> FileStore[Any] | None:
        return None if self.own is None else self.decoded(self.own)

    def decoded(self, store: FileStore[Any]) -> FileStore[Any]:
        """Return a store that decodes the content of another one with the decoder of the source."""
        decoder: Any = self.decoder
        if decoder is None or whole_sample_decoder(decoder) is not None or isinstance(store, BinIdxFileStore):
            return store
        return DecodeFileStore(store, decoder=decoder, trust_code=self.trust_code)
