"""A dataset as a source: a split part of a prepared one, or a single file; or a subset of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from ...cached_property import cached_property
from ...dataset.dataset import Dataset
from ...dataset.opening import dataset_at
from ...dataset.selection import Selection
from ...dataset.turns import Turns
from ...errors import EmptyDatasetError, FormatError, plural
from ...format.documents.next_command import split_hint
from ...format.documents.providers import LoadRequest
from ...format.index.locations import SampleLocations
from ...format.nv_meta import FOLDER
from ...format.records.folder_index import RecordIndex
from ...samples.building.described_dataset import DescribedDataset
from ...samples.decoding.decoder import AnyDecoder, SampleDecoder
from .recipe import DatasetRecipe
from .source import Source


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetSource(Source):
    """A split part of a dataset, and how its samples are built; a single file is every split part.

    Args:
        decoder: Decoder of the parts; None leaves them bytes.
    """

    request: LoadRequest
    decoder: AnyDecoder | None = field(default_factory=SampleDecoder)
    described: DescribedDataset[Any] | None = None

    _uuid: str | None = field(default=None, init=False)
    """UUID of the index that the sending process used; checked by the process that unpickles this source."""
    _begun: str | None = field(default=None, init=False)
    """The samples that take no turn, as a state holds them; None for those that are excluded now."""

    def __getstate__(self) -> dict[str, Any]:
        opened: Dataset | None = self.__dict__.get("folder")
        uuid = self._uuid if opened is None else _uuid_of(opened)
        # Samples may be excluded before the other process reads the split: it takes the numbers of this one.
        begun = self._begun if opened is None else self.turns.left_out
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"_uuid": uuid, "_begun": begun}

    @cached_property
    def folder(self) -> Dataset:  # type: ignore[override] # read only
        folder = dataset_at(self.request.ref, reads_samples=True)
        if self._uuid is not None and _uuid_of(folder) != self._uuid:
            raise FormatError(
                "this dataset was prepared again since it was opened: its samples may have other numbers now",
                at=folder.path,
                hint="restart the program",
            )
        return folder

    @property
    def members(self) -> tuple[DatasetSource, ...]:  # type: ignore[override] # read only
        return (self,)

    # --------------------------------------------------------------------------------------- how samples are built

    @cached_property
    def split_part(self) -> str:
        """The split part that is loaded; of a described dataset, ``dataset.yaml`` has no effect on it."""
        requested = self.request.split_part
        return requested if self.described is not None else self.folder.documents.loaded_part(requested)

    @cached_property
    def recipe(self) -> DatasetRecipe:  # type: ignore[override] # read only
        return DatasetRecipe(self.folder, self.request, self.decoder, self.described)

    # ---------------------------------------------------------------------------------------- where samples are

    @cached_property
    def locate(self) -> Callable[..., SampleLocations]:
        """Function that locates the needed parts of samples, by their numbers in the index."""
        return self.folder.locator(self.recipe.builder.part_filter)

    @cached_property
    def shard_names(self) -> list[str]:
        return [shard.name for shard in self.folder.index.shards]

    @cached_property
    def selection(self) -> Selection:  # type: ignore[override] # read only
        """The samples that are loaded, excluded ones included."""
        return Selection(self.folder, self.split_part, self.request.filter, self.request.subset)

    @cached_property
    def samples(self) -> int:
        _ = self.folder.index  # raise its errors first
        chosen = len(self.selection)
        if not chosen:
            raise self._no_samples()
        count = len(self.turns)
        # An endless order would search forever for a sample that is not excluded.
        if len(self.turns.excluded) >= count:
            raise EmptyDatasetError(
                f"all samples of split part {self.split_part!r} are excluded ({chosen:,})",
                at=self.folder.path,
                hint=f"remove some from 'exclude' in {FOLDER}/{self.folder.documents.split_file}",
            )
        return count

    def _no_samples(self) -> EmptyDatasetError:
        folder, request = self.folder, self.request
        what = "this file" if folder.is_file else f"split part {self.split_part!r} of this dataset"
        kept = "" if request.filter is None else f" that the filter {request.filter!r} keeps"
        # Advise what the caller can change: the split part, the subset or the filter.
        hint = f"name another split part, or {split_hint(folder.path)}"
        if folder.is_file or (request.subset and request.filter is None):
            hint = f"widen the subset, or remove the {'file' if folder.is_file else 'dataset'} from the mix"
        elif request.filter is not None:
            hint = "name another filter or split part, or none"
        at = request.ref.path if folder.is_file else folder.path
        return EmptyDatasetError(
            f"{'the subset of ' if request.subset else ''}{what} has no samples{kept}", at=at, hint=hint
        )

    def begin_without(self, left_out: str | None) -> None:
        for name in ("turns", "samples"):
            self.__dict__.pop(name, None)
        object.__setattr__(self, "_begun", left_out)

    @cached_property
    def turns(self) -> Turns:  # type: ignore[override] # read only
        return Turns(self.selection, self._begun)

    def identity(self) -> dict[str, Any]:
        folder, kept = self.folder, self.selection.filter
        start = 0 if kept is None else kept.checksum
        # A changed file, other shards of a split part and another filter must all give another number.
        if folder.is_file:  # all of it is the split part
            runs = zlib.crc32(cast("RecordIndex", folder.index).file(0).fingerprint(), start)
        else:
            ends, starts = self.selection.whole
            runs = zlib.crc32(starts.tobytes(), zlib.crc32(ends.tobytes(), start))
        commit = folder.index.layout.commit
        return {
            "path": self.request.ref.path,
            **({"commit": commit} if commit else {}),
            **({} if folder.is_file else {"uuid": folder.index.uuid, "split_part": self.split_part}),
            "samples": len(self.selection),
            "which": zlib.crc32(np.array(self.selection.bounds, np.int64).tobytes(), runs),
            **({} if kept is None else {"filter": kept.name}),
            **({"excluded": self.turns.left_out} if self.turns.left_out else {}),
        }

    def describe(self) -> str:
        kept = f", filter {self.request.filter}" if self.request.filter else ""
        part = f", {self.split_part or 'all parts'}" if not self.folder.is_file else ""
        return f"{self.request.ref.path}{part}{kept}: {plural(len(self.turns), 'sample')}"


def _uuid_of(dataset: Dataset) -> str | None:
    """Return the UUID of the index; None for a single file, which is not prepared."""
    return None if dataset.is_file else dataset.index.uuid
