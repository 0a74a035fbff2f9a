"""The datasets of a run one by one, for code that builds the chain by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...errors import EnergonError
from ...pipeline.reading.source import Source
from ...storage import EPath
from ...stores.file_store import FileStore
from .dataset_factory import BaseCoreDatasetFactory


class DatasetBlendMode(Enum):
    """Kind of a mix of datasets."""

    NONE = "none"
    DATASET_WEIGHT = "dataset_weight"
    SAMPLE_REPETITIONS = "sample_repetitions"


class SourceFactory(BaseCoreDatasetFactory[Any]):
    """A factory for a source that is open already.

    Args:
        source: The source.
        place: Its place in the metadataset that names it.
        **options: Arguments of :class:`BaseCoreDatasetFactory`.

    Attributes:
        name: Name of the folder or file of samples; for a join, of its metadataset.
        path: Path of the folder or file of samples; for a join, of its metadataset.
        paths: Folder or file of samples; for a join, of each member.
        split_part: Part of the split.
        subflavors: Labels of all samples.
        place: Place in the document that names it (``splits.val.blend[2]``); empty without a metadataset.
    """

    def __init__(self, source: Source, *, place: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._source = source
        request = source.request
        self.path = EPath(request.path)
        self.name = self.path.name
        self.paths = [EPath(one.request.path) for one in getattr(source, "members", (source,))]
        self.split_part = request.split_part
        builder = getattr(source, "builder", None)  # knows those of the dataset's own document
        self.subflavors = {**(builder.subflavors if builder is not None else {}), **request.subflavors}
        self.place = place

    @property
    def source(self) -> Source:
        """The source that the stages read."""
        return self._source

    def as_file_store(self) -> FileStore[Any]:
        """Return the store of the dataset's parts, by name.

        Raises:
            EnergonError: The parts have no names.
        """
        store = self._source.stores.own
        if store is None:
            raise EnergonError(
                "samples of a join, a Parquet file or a folder of records have no names to look them up by",
                at=self._source.describe(),
            )
        return store


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDataset:
    """A dataset and its share of a mix.

    Attributes:
        dataset: The dataset; its ``build()`` starts a chain.
        weight: Share of a blend without end; None if the mix is one of repetitions.
        repetitions: Repetitions in a pass; None if the mix is one of weights.
        aux: Auxiliary stores by name.
    """

    dataset: BaseCoreDatasetFactory[Any]
    weight: float | None = None
    repetitions: float | None = None
    aux: Mapping[str, FileStore[Any]] = field(default_factory=dict)
