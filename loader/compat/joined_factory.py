"""A factory for several datasets that are joined row by row."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack

from ..cached_property import cached_property
from ..errors import ConfigError, EnergonError
from ..format.dataset_ref import DatasetRef
from ..format.documents.providers import LoadRequest
from ..metadataset.documents.leaf_plan import JoinMember, JoinPlan, Nonmatch
from ..metadataset.joins.prepare_join import find_rows
from ..pipeline.reading.joined_source import JoinedSource
from ..stores.file_store import FileStore
from ..training.datasets.dataset_factory import BaseCoreDatasetFactory, PassKeywords
from .webdataset_factory import BaseWebdatasetFactory

T_co = TypeVar("T_co", covariant=True)


class JoinedWebdatasetFactory(BaseCoreDatasetFactory[T_co]):
    """Samples of several datasets, joined to one where their bare keys are equal.

    A join of a metadataset is prepared once, and its rows are memory-mapped; this factory finds its rows in memory, on
    the first use of a sample or of the length.

    Args:
        inner_datasets: The datasets, the primary one first; in a mapping, with the argument names of the joiner.
        joiner: Builds one sample from the samples of a row: a class with a method ``from_joined``, or a function.
        nonmatch: Treatment of a key of the primary dataset that another one lacks: ``"error"``, ``"skip"`` the row, or
            ``"none"``, which passes None.
        join_index: Accepted for code written for megatron-energon.
        **options: Arguments of :class:`BaseCoreDatasetFactory`; slices and the subset are of rows, and a slice is by
            default as long as the largest shard of the primary dataset.

    Raises:
        ConfigError: There is no dataset, a dataset has a subset, or a number is out of range.

    >>> pictures = CrudeWebdataset("photos", part_filter=["jpg"], training=False, split_part="train")
    >>> texts = CrudeWebdataset("photos", part_filter=["txt"], training=False, split_part="train")
    >>> joined = JoinedWebdatasetFactory([pictures, texts], joiner=join_parts, training=False)
    >>> [sample["txt"] for sample in get_loader(joined.build())]
    ['a cat', 'a dog', 'two cats', 'a bird']
    """

    def __init__(
        self,
        inner_datasets: Sequence[BaseWebdatasetFactory[Any]] | Mapping[str, BaseWebdatasetFactory[Any]],
        *,
        joiner: type[T_co] | Callable[..., T_co],
        nonmatch: Nonmatch = "error",
        join_index: str | os.PathLike[str] | None = None,
        **options: Unpack[PassKeywords],
    ) -> None:
        super().__init__(**options)
        self.names: tuple[str, ...] | None = None
        # Names of members come from a mapping; a sequence has none.
        if isinstance(inner_datasets, Mapping):
            self.names = tuple(inner_datasets)
            inner_datasets = tuple(inner_datasets.values())
        self.inner_datasets = tuple(inner_datasets)
        self.paths = [dataset.path for dataset in self.inner_datasets]
        self.subflavors = {}  # of the inner datasets
        self.join_index = join_index  # not read: rows are found in memory
        self.joiner = joiner
        self.nonmatch: Nonmatch = nonmatch
        if not self.inner_datasets:
            raise ConfigError("expected datasets to join, found none")
        for dataset in self.inner_datasets:
            if dataset.subset:
                raise ConfigError(
                    "a dataset of a join has a subset", at=str(dataset.path), hint="pass the subset to the join"
                )

    @property
    def inner_dataset_keys(self) -> list[str] | None:
        """Argument names of the joiner; None if its arguments are positional."""
        return None if self.names is None else list(self.names)

    @cached_property
    def source(self) -> JoinedSource:
        """The source that the stages read."""
        primary = str(self.inner_datasets[0].path)
        names = self.names or (None,) * len(self.inner_datasets)
        # The first dataset determines the rows, so nonmatch applies to the others only.
        members = tuple(
            JoinMember(
                request=dataset.source.request,
                place=f"inner_datasets[{index if name is None else repr(name)}]",
                name=name,
                nonmatch=self.nonmatch if index else "error",
            )
            for index, (name, dataset) in enumerate(zip(names, self.inner_datasets, strict=True))
        )
        plan = JoinPlan(file=primary, place="inner_datasets", members=members, joiner=None)
        return JoinedSource(
            request=LoadRequest(ref=DatasetRef(primary), subset=tuple(self.subset)),
            place=plan.place,
            members=tuple(dataset.source for dataset in self.inner_datasets),
            names=self.names,
            open_rows=partial(find_rows, plan),
            joiner=getattr(self.joiner, "from_joined", self.joiner),
        )

    def as_file_store(self) -> FileStore[Any]:
        """Raise an error: a row has parts of several datasets.

        Raises:
            EnergonError: Always.
        """
        raise EnergonError("the rows of a join are not in a store", hint="use one of its inner_datasets")
