"""Several datasets joined row by row, as a factory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ...cached_property import cached_property
from ...errors import ConfigError, EnergonError
from ...format.documents.load_request import LoadRequest
from ...format.documents.subset import SubsetRange
from ...metadataset.documents.leaf_plan import JoinMember, JoinPlan, Nonmatch
from ...metadataset.joins.prepare_join import find_rows
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.joined_source import JoinedSource
from ...storage import EPath
from ...stores.file_store import FileStore
from ..datasets.dataset_factory import BaseCoreDatasetFactory, DatasetSubset
from .webdataset_factory import BaseWebdatasetFactory

__all__ = ["JoinedWebdatasetFactory"]

T_co = TypeVar("T_co", covariant=True)


class JoinedWebdatasetFactory(BaseCoreDatasetFactory[T_co]):
    """Samples of several datasets that have the same bare key, made one.

    A join of a metadataset is prepared once, and needs no memory for its rows; this one finds them when it is first
    asked for a sample or its length.

    Args:
        inner_datasets: The datasets, the primary one first; in a mapping, with the names that the joiner has for them.
        joiner: Makes a sample of those of a row: a class with a method ``from_joined``, or a function.
        nonmatch: What happens where a dataset lacks a key of the primary: ``"error"``, ``"skip"`` the row, or
            ``"none"``, which gives None.
        join_index: Accepted for code written for megatron-energon.
        training: A pass is shuffled; else samples come as they lie.
        worker_config: How the run is spread; by default :meth:`WorkerConfig.default_worker_config`.
        shuffle_over_epochs: How many passes are shuffled together; -1 draws slices with replacement, without end; None
            does not shuffle.
        parallel_shard_iters: Accepted for code written for megatron-energon.
        max_samples_per_sequence: Neighbouring rows that are read one after another; None: a shard's of the primary.
        subset: Which rows are used; by default all.

    Raises:
        ConfigError: There is no dataset, one has a subset, or a number is out of range.
    """

    def __init__(
        self,
        inner_datasets: Sequence[BaseWebdatasetFactory[Any]] | Mapping[str, BaseWebdatasetFactory[Any]],
        *,
        joiner: type[T_co] | Callable[..., T_co],
        nonmatch: Nonmatch = "error",
        join_index: str | os.PathLike[str] | None = None,  # noqa: ARG002 - the rows are found anew
        training: bool = True,
        worker_config: WorkerConfig | None = None,
        shuffle_over_epochs: int | None = 1,
        parallel_shard_iters: int | None = None,
        max_samples_per_sequence: int | None = None,
        subset: DatasetSubset | Sequence[SubsetRange] | None = None,
    ) -> None:
        super().__init__(
            training=training,
            worker_config=worker_config,
            shuffle_over_epochs=shuffle_over_epochs,
            parallel_shard_iters=parallel_shard_iters,
            max_samples_per_sequence=max_samples_per_sequence,
            subset=subset,
        )
        self.names: tuple[str, ...] | None = None
        if isinstance(inner_datasets, Mapping):
            self.names = tuple(inner_datasets)
            inner_datasets = tuple(inner_datasets.values())
        self.inner_datasets = tuple(inner_datasets)
        self.joiner = joiner
        self.nonmatch: Nonmatch = nonmatch
        if not self.inner_datasets:
            raise ConfigError("expected datasets to join, found none")
        for dataset in self.inner_datasets:
            if dataset.subset:
                raise ConfigError(
                    "a dataset of a join has a subset", at=str(dataset.path), hint="give the join the subset"
                )

    @property
    def paths(self) -> list[EPath]:
        """The folders of the datasets."""
        return [dataset.path for dataset in self.inner_datasets]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "source"}

    @cached_property
    def source(self) -> JoinedSource:
        """The rows, as the stages know them."""
        primary = str(self.inner_datasets[0].path)
        names = self.names or (None,) * len(self.inner_datasets)
        members = tuple(
            JoinMember(
                request=dataset.source.request,
                place=f"inner_datasets[{place if name is None else repr(name)}]",
                name=name,
                nonmatch=self.nonmatch if place else "error",
            )
            for place, (name, dataset) in enumerate(zip(names, self.inner_datasets, strict=True))
        )
        plan = JoinPlan(file=primary, place="inner_datasets", members=members, joiner=None)
        return JoinedSource(
            request=LoadRequest(path=primary, subset=tuple(self.subset)),
            place=plan.place,
            members=tuple(dataset.source for dataset in self.inner_datasets),
            names=self.names,
            open_rows=partial(find_rows, plan),
            joiner=getattr(self.joiner, "from_joined", self.joiner),
        )

    def as_file_store(self) -> FileStore[Any]:
        """Refuse: a row has parts of several datasets.

        Raises:
            EnergonError: Always.
        """
        raise EnergonError("the rows of a join are in no store", hint="ask one of its inner_datasets")
