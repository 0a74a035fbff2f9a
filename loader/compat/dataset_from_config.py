"""``get_dataset_from_config``: open a prepared dataset as the dataset class that its ``dataset.yaml`` names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Unpack

from ..cached_property import cached_property
from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..dataset.records import SingleFile
from ..errors import ConfigError, EnergonError
from ..format.data_kind import data_path
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig, is_own_module
from ..format.documents.providers import LoadRequest
from ..format.jsonl.index import prepare_jsonl
from ..format.nv_meta import FOLDER
from ..format.records.folder_index import open_record_path
from ..format.shard_content import iter_jsonl_content
from ..pipeline.contract.worker_config import WorkerConfig
from ..pipeline.reading.dataset_source import DatasetSource
from ..samples.building.dataset_code import dataset_class_of
from ..samples.building.described_dataset import arguments_of_config, instantiate
from ..samples.decoding.decoder import SampleDecoder
from ..samples.types import CrudeSample
from ..storage import EPath, open_parent
from ..stores.file_store import FileStore
from ..stores.record_file_stores import BinIdxFileStore, JsonlFileStore
from ..training.datasets.dataset_factory import BaseCoreDatasetFactory, PassKeywords
from ..training.datasets.open_sources import check_sample_type, given_subflavors
from . import webdatasets
from .webdataset_factory import BaseWebdatasetFactory, StandardWebdatasetFactory


class RecordDatasetFactory(BaseCoreDatasetFactory[CrudeSample]):
    """A single file of numbered samples: each is a crude sample.

    Args:
        path: The file.
        subflavors: Labels of all samples.
        filter_name: The filter that selects samples; by default all.
        decoder: Decoder of the json in JSONL files; by default :class:`SampleDecoder`.
        **options: Arguments of :class:`BaseCoreDatasetFactory`.

    Raises:
        ConfigError: A number is out of range.
    """

    __sample_type__ = CrudeSample

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        subflavors: Mapping[str, Any] | None = None,
        filter_name: str | None = None,
        decoder: SampleDecoder | None = None,
        **options: Unpack[PassKeywords],
    ) -> None:
        super().__init__(**options)
        self.path = EPath(path)
        self.paths = [self.path]
        self.subflavors = dict(subflavors or {})
        self.filter_name = filter_name
        self.decoder = decoder if decoder is not None else SampleDecoder()

    @cached_property
    def source(self) -> DatasetSource:
        """The source that the stages read."""
        request = LoadRequest(
            ref=DatasetRef(data_path(str(self.path))),
            subset=tuple(self.subset),
            subflavors=self.subflavors,
            filter=self.filter_name,
        )
        return DatasetSource(request=request, decoder=self.decoder)

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
        with closing(SingleFile(DatasetRef(os.fspath(path)))) as file:
            for row in range(len(file)):
                yield file.read_parts(row)

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


class CrudeJsonlDatasetFactory(RecordDatasetFactory):
    """A JSONL file, whose index is next to it: each line is a crude sample with the single part ``json``.

    >>> lines = CrudeJsonlDatasetFactory("numbers.jsonl", training=False)
    >>> [sample["json"] for sample in get_loader(lines.build())]
    [{'n': 0}, {'n': 1}, {'n': 2}]
    """

    def as_file_store(self) -> FileStore[Any]:
        """Return the lines by number."""
        return JsonlFileStore(self.path)

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
        return len(prepare_jsonl(*open_parent(path)))


class DefaultCrudeJsonlDatasetFactory(CrudeJsonlDatasetFactory):
    """A JSONL file, under the class name that ``dataset.yaml`` files of megatron-energon use.

    >>> len(DefaultCrudeJsonlDatasetFactory("numbers.jsonl"))
    3
    """


class BinIdxDatasetFactory(RecordDatasetFactory):
    """A pair of token files ``x.bin`` and ``x.idx`` of Megatron-LM: each sequence is a crude sample with ``tokens``.

    The path names the ``.bin`` file, or has no suffix, as Megatron-LM writes it.

    >>> sequences = BinIdxDatasetFactory("tokens.bin", training=False)
    >>> [sample["tokens"].tolist() for sample in get_loader(sequences.build())]
    [[7, 8], [9]]
    """

    def as_file_store(self) -> FileStore[Any]:
        """Return the sequences by number."""
        return BinIdxFileStore(self.path)


class DefaultBinIdxDatasetFactory(BinIdxDatasetFactory):
    """A pair of token files, under the name of megatron-energon's class without options.

    >>> len(DefaultBinIdxDatasetFactory("tokens"))
    2
    """


class CrudeParquetDatasetFactory(RecordDatasetFactory):
    """A Parquet file: each row is a crude sample with a value for each column.

    >>> rows = CrudeParquetDatasetFactory("captions.parquet", training=False)
    >>> [sample["caption"] for sample in get_loader(rows.build())]
    ['a cat', 'a dog']
    """


_FACTORIES: Mapping[str, type[RecordDatasetFactory]] = {
    "jsonl": DefaultCrudeJsonlDatasetFactory,
    "binidx": DefaultBinIdxDatasetFactory,
    "parquet": CrudeParquetDatasetFactory,
}
"""Format of a single file → its dataset class."""


def get_dataset_from_config(
    path: str | os.PathLike[str],
    *,
    dataset_config: str | None = None,
    split_config: str | None = None,
    meta_folder: str | os.PathLike[str] | None = None,
    split_part: str | None = None,
    training: bool = True,
    subflavors: Mapping[str, Any] | None = None,
    worker_config: WorkerConfig | None = None,
    sample_type: type[Any] | None = None,
    trust_code: bool = False,
    filter_name: str | None = None,
    tags: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> BaseCoreDatasetFactory[Any]:
    """Open a dataset to build a chain on by hand: its ``build()`` reads, decodes and builds samples.

    Args:
        path: Folder of a prepared dataset, or a file of samples.
        dataset_config: Name of the dataset file in ``.nv-meta``.
        split_config: Name of the split file in ``.nv-meta``.
        meta_folder: Folder to use instead of ``.nv-meta``.
        split_part: Part of the split; by default ``"train"`` or ``"val"``.
        training: Shuffle a pass; otherwise samples come in the order of the shards.
        subflavors: Labels of all samples; they replace labels of ``dataset.yaml`` with the same name.
        worker_config: Ranks, workers and lanes of the run; by default :meth:`WorkerConfig.default_worker_config`.
        sample_type: Expected class of the samples.
        trust_code: Allow the dataset to run its code and to load pickles.
        filter_name: Name of the filter that selects samples.
        tags: Other name of ``subflavors``.
        **kwargs: Other arguments of the dataset's class: ``shuffle_over_epochs``, ``max_samples_per_sequence``,
            ``decoder`` …

    Raises:
        StorageError: The folder is missing or not prepared.
        ConfigError: A file of the dataset is invalid, its samples are of another type, or a user-defined class does not
            accept its arguments.
        TrustError: The dataset needs to run code, and the caller does not allow it.
        TypeError: There is no such argument.
    """
    # Arguments for every kind of dataset.
    subflavors = given_subflavors(subflavors, tags, caller="get_dataset_from_config")
    common: dict[str, Any] = {"training": training, "worker_config": worker_config, **kwargs}
    if filter_name is not None:  # a user-defined class need not take it
        common["filter_name"] = filter_name
    ref = DatasetRef.at(path, meta_folder, split_config=split_config, dataset_config=dataset_config)
    # A single file of samples; a metadataset is for another function.
    factory = _FACTORIES.get(ref.kind.format)
    if factory is not None:
        check_sample_type(factory.__sample_type__, sample_type, at=None)
        return factory(path, subflavors=subflavors, **common)
    if ref.kind.is_mix:
        raise ConfigError(
            "this is a metadataset, which may have several datasets",
            file=os.fspath(path),
            hint="pass it to load_dataset()",
        )
    # A folder of shards, whose dataset.yaml names the class.
    common |= {"split_config": split_config, "trust_code": trust_code}
    meta = ref.find_meta()
    if meta.origin != "data":  # a user-defined class need not take it
        common["meta_folder"] = meta.path
    folder = folder_at(ref)
    common["split_part"] = folder.documents.loaded_part(split_part or ("train" if training else "val"))
    made = _open_folder(EPath(path), folder, subflavors, common)
    made.dataset_config = dataset_config
    check_sample_type(made.source.recipe.builder.sample_class, sample_type, at=folder.storage.path(FOLDER))
    return made


def _open_folder(
    path: EPath, folder: Dataset, subflavors: Mapping[str, Any], common: dict[str, Any]
) -> BaseWebdatasetFactory[Any]:
    """Create the dataset of a prepared folder.

    Args:
        subflavors: Labels that replace the labels of ``dataset.yaml``.
        common: Arguments of the class that ``dataset.yaml`` does not set.
    """
    config = folder.documents.config or DatasetConfig(sample_type="CrudeSample", crude=True)
    dataset_class = _class_of(config, trust_code=common["trust_code"])
    given = arguments_of_config(config, trust_code=common["trust_code"])
    common = {**common, "subflavors": {**config.subflavors, **subflavors}}
    if not is_own_module(config.dataset_module):
        return instantiate(dataset_class, EPath(folder.storage.path("")), {**given, **common})
    given = {name: value for name, value in given.items() if name not in config.extra}
    if not issubclass(dataset_class, StandardWebdatasetFactory):
        given.pop("sample_type", None)  # the class defines it
    return dataset_class(path, **{**given, **common})


def _class_of(config: DatasetConfig, *, trust_code: bool) -> type[BaseWebdatasetFactory[Any]]:
    if is_own_module(config.dataset_module):
        name = "CrudeWebdataset" if config.crude else config.dataset_class or ""
        factory_class: type[BaseWebdatasetFactory[Any]] = getattr(webdatasets, name, StandardWebdatasetFactory)
        return factory_class
    named = dataset_class_of(config, trust_code=trust_code)
    if isinstance(named, type) and issubclass(named, BaseWebdatasetFactory):
        return named
    raise ConfigError(
        f"{config.dataset_module}.{config.dataset_class} is not a dataset class",
        hint="derive it from DefaultDecoderWebdatasetFactory",
    )
