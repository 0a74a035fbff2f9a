"""Factories for JSONL files, to build a chain on by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...cached_property import cached_property
from ...errors import EnergonError
from ...format.documents.load_request import LoadRequest
from ...format.documents.subset import SubsetRange
from ...format.jsonl.index import prepare_jsonl
from ...format.shard_content import iter_jsonl_content
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.jsonl_source import JsonlSource
from ...samples.decoding.decoder import SampleDecoder
from ...samples.types import CrudeSample
from ...storage import EPath, open_storage
from ...stores.file_store import FileStore
from ..datasets.dataset_factory import BaseCoreDatasetFactory, DatasetSubset

__all__ = ["CrudeJsonlDatasetFactory", "DefaultCrudeJsonlDatasetFactory"]


class CrudeJsonlDatasetFactory(BaseCoreDatasetFactory[CrudeSample]):
    """A JSONL file: each line is a crude sample with the single part ``json``.

    Args:
        path: The file; its index is next to it.
        training: Shuffle a pass; otherwise samples come in the order of the shards.
        worker_config: Ranks, workers and lanes of the run; by default :meth:`WorkerConfig.default_worker_config`.
        shuffle_over_epochs: Number of passes that are shuffled together; -1 draws slices with replacement, without end;
            None does not shuffle.
        parallel_shard_iters: Accepted for code written for megatron-energon.
        max_samples_per_sequence: Length of a slice: neighbouring samples that are read one after another; None: the
            whole file.
        subset: The samples to use; by default all.
        subflavors: Labels of all samples.
        decoder: Decoder of the json; by default :class:`SampleDecoder`.
        filter_name: Name of the filter that selects samples; None keeps all.

    Raises:
        ConfigError: A number is out of range.
    """

    __sample_type__ = CrudeSample

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        training: bool = True,
        worker_config: WorkerConfig | None = None,
        shuffle_over_epochs: int | None = 1,
        parallel_shard_iters: int | None = None,
        max_samples_per_sequence: int | None = None,
        subset: DatasetSubset | Sequence[SubsetRange] | None = None,
        subflavors: Mapping[str, Any] | None = None,
        decoder: SampleDecoder | None = None,
        filter_name: str | None = None,
    ) -> None:
        super().__init__(
            training=training,
            worker_config=worker_config,
            shuffle_over_epochs=shuffle_over_epochs,
            parallel_shard_iters=parallel_shard_iters,
            max_samples_per_sequence=max_samples_per_sequence,
            subset=subset,
        )
        self.path = EPath(path)
        self.subflavors = dict(subflavors or {})
        self.filter_name = filter_name
        self.decoder = decoder if decoder is not None else SampleDecoder()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "source"}

    @cached_property
    def source(self) -> JsonlSource:
        """The source that the stages read."""
        request = LoadRequest(
            path=str(self.path), filter=self.filter_name, subset=tuple(self.subset), subflavors=self.subflavors
        )
        return JsonlSource(request=request, decoder=self.decoder)

    def as_file_store(self) -> FileStore[Any]:
        """Raise an error: the lines of a file have no names.

        Raises:
            EnergonError: Always.
        """
        raise EnergonError(
            "parts of a JSONL file have no names to look them up by",
            at=str(self.path),
            hint="use a folder of files or a prepared dataset as the auxiliary store",
        )

    @staticmethod
    def iter_dataset_content(path: str | os.PathLike[str]) -> Iterator[dict[str, bytes]]:
        """Iterate over the lines of a JSONL file, without an index.

        Yields:
            The line of each sample, as ``json``.

        Raises:
            FormatError: A line is not a JSON object.
            StorageError: The file cannot be read.
        """
        return iter_jsonl_content(path)

    @classmethod
    def prepare_dataset(cls, path: str | os.PathLike[str]) -> int:
        """Index a JSONL file, as ``energon prepare`` does.

        Returns:
            Number of samples.

        Raises:
            FormatError: A line is not a JSON object.
            StorageError: The file cannot be read, or the index cannot be written.
        """
        folder, name = os.path.split(os.fspath(path))
        return len(prepare_jsonl(open_storage(folder or "."), name))


class DefaultCrudeJsonlDatasetFactory(CrudeJsonlDatasetFactory):
    """A JSONL file, under the class name that ``dataset.yaml`` files of megatron-energon use."""
