"""One dataset of a run as code that composes chains by hand has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..errors import EnergonError
from ..pipeline.leaf import Leaf
from ..stores.dataset_file_store import DatasetFileStore
from ..stores.file_store import FileStore
from .dataset_factory import BaseCoreDatasetFactory

__all__ = ["DatasetBlendMode", "LeafFactory", "LoadedDataset"]


class DatasetBlendMode(Enum):
    """What a mix of datasets goes by."""

    NONE = "none"
    DATASET_WEIGHT = "dataset_weight"
    SAMPLE_REPETITIONS = "sample_repetitions"


class LeafFactory(BaseCoreDatasetFactory[Any]):
    """A dataset that is opened already.

    Args:
        leaf: The dataset.
        **options: Those of :class:`BaseCoreDatasetFactory`.
    """

    def __init__(self, leaf: Leaf, **options: Any) -> None:
        super().__init__(**options)
        self._leaf = leaf

    @property
    def leaf(self) -> Leaf:
        """The dataset, as the stages know it."""
        return self._leaf

    def as_file_store(self) -> FileStore[Any]:
        """Give the parts of the dataset by name.

        Raises:
            EnergonError: They have none.
        """
        path = self._leaf.stores.path
        if path is None:
            raise EnergonError(
                "the samples of a JSONL file or a join have no names to look parts up by", at=self._leaf.describe()
            )
        return DatasetFileStore(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDataset:
    """A dataset and its part in a mix.

    Attributes:
        dataset: The dataset; its ``build()`` starts a chain.
        weight: Its share of a blend without end; None where the mix is one of repetitions.
        repetitions: How often it comes in a pass; None where the mix is one of weights.
        aux: Auxiliary stores by name.
    """

    dataset: BaseCoreDatasetFactory[Any]
    weight: float | None = None
    repetitions: float | None = None
    aux: Mapping[str, FileStore[Any]] = field(default_factory=dict)
