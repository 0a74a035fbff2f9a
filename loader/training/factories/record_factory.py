"""Factories for single files of numbered samples, to build a chain on by hand: token files and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from ...cached_property import cached_property
from ...errors import EnergonError
from ...format.documents.load_request import LoadRequest
from ...format.documents.providers import data_path
from ...format.documents.subset import SubsetRange
from ...format.records.record_file import RecordReader, open_record_path
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.record_source import RecordSource
from ...samples.decoding.decoder import SampleDecoder
from ...samples.types import CrudeSample
from ...storage import EPath
from ...stores.file_store import FileStore
from ...stores.record_file_stores import BinIdxFileStore
from ..datasets.dataset_factory import BaseCoreDatasetFactory, DatasetSubset


class RecordDatasetFactory(BaseCoreDatasetFactory[CrudeSample]):
    """A single file of numbered samples: each is a crude sample.

    Args:
        path: The file.
        training: Shuffle a pass; otherwise samples come in the order of the file.
        worker_config: Ranks, workers and lanes of the run; by default :meth:`WorkerConfig.default_worker_config`.
        shuffle_over_epochs: Number of passes that are shuffled together; -1 draws slices with replacement, without end;
            None does not shuffle.
        parallel_shard_iters: Accepted for code written for megatron-energon.
        max_samples_per_sequence: Length of a slice: neighbouring samples that are read one after another; None: the
            whole file.
        subset: The samples to use; by default all.
        subflavors: Labels of all samples.
        filter_name: The filter that selects samples; by default all.
        decoder: Decoder of the json in JSONL files; by default :class:`SampleDecoder`.

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
        filter_name: str | None = None,
        decoder: SampleDecoder | None = None,
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
        self.paths = [self.path]
        self.subflavors = dict(subflavors or {})
        self.filter_name = filter_name
        self.decoder = decoder if decoder is not None else SampleDecoder()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "source"}

    @cached_property
    def source(self) -> RecordSource:
        """The source that the stages read."""
        request = LoadRequest(
            path=data_path(str(self.path)),
            subset=tuple(self.subset),
            subflavors=self.subflavors,
            filter=self.filter_name,
        )
        return RecordSource(request=request, decoder=self.decoder)

    def as_file_store(self) -> FileStore[Any]:
        """Raise an error: the samples of a file have no names.

        Raises:
            EnergonError: Always.
        """
        raise EnergonError(
            "samples of this file have no names to look them up by",
            at=str(self.path),
            hint="use a folder of files or a prepared dataset as the auxiliary store",
        )

    @staticmethod
    def iter_dataset_content(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
        """Iterate over the samples of a file, without building crude samples.

        Yields:
            The parts of each sample by name.

        Raises:
            FormatError: The file is damaged.
            StorageError: The file cannot be read.
        """
        reader = RecordReader(open_record_path(data_path(os.fspath(path))))
        with closing(reader):
            for number in range(len(reader)):
                yield reader.read_parts(number)

    @classmethod
    def prepare_dataset(cls, path: str | os.PathLike[str]) -> int:
        """Open the file, which needs no index.

        Returns:
            Number of samples.

        Raises:
            FormatError: The file is damaged.
            StorageError: The file cannot be read.
        """
        return len(open_record_path(data_path(os.fspath(path))))


class BinIdxDatasetFactory(RecordDatasetFactory):
    """A pair of token files ``x.bin`` and ``x.idx`` of Megatron-LM: each sequence is a crude sample with ``tokens``.

    The path is that of the ``.bin`` file, or without a suffix, as Megatron-LM writes it.
    """

    def as_file_store(self) -> FileStore[Any]:
        """Return the sequences by number."""
        return BinIdxFileStore(self.path)


class DefaultBinIdxDatasetFactory(BinIdxDatasetFactory):
    """A pair of token files, under the name of megatron-energon's class without options."""


class CrudeParquetDatasetFactory(RecordDatasetFactory):
    """A Parquet file: each row is a crude sample with a value for each column."""
