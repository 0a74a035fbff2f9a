"""Factories for datasets of shards: to derive from, to name in ``dataset.yaml``, and to build a chain on by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...cached_property import cached_property
from ...format.documents.load_request import LoadRequest, resolve_meta_folder
from ...format.documents.subset import SubsetRange
from ...format.nv_meta import SPLIT_YAML
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.dataset_source import DatasetSource
from ...samples.building.described_dataset import DescribedDataset, OfTheRun
from ...samples.decoding.decoder import AnyDecoder
from ...storage import EPath
from ...stores.dataset_file_store import DatasetFileStore
from ...stores.file_store import FileStore
from ..datasets.dataset_factory import BaseCoreDatasetFactory, DatasetSubset
from .webdataset_meta import ShardInfo, WebdatasetMeta
from .webdataset_preparator import WebdatasetPreparator

T_co = TypeVar("T_co", covariant=True)


class BaseWebdatasetFactory(BaseCoreDatasetFactory[T_co], DescribedDataset[T_co], WebdatasetPreparator):
    """A dataset of shards, whose parts stay bytes.

    Args:
        path: The dataset's folder.
        split_part: Part of the split; by default ``"train"`` or ``"val"``.
        training: Shuffle a pass; otherwise samples come in the order of the shards.
        worker_config: Ranks, workers and lanes of the run; by default :meth:`WorkerConfig.default_worker_config`.
        shuffle_over_epochs: Number of passes that are shuffled together; -1 draws slices with replacement, without end;
            None does not shuffle.
        parallel_shard_iters: Accepted for code written for megatron-energon.
        max_samples_per_sequence: Length of a slice: neighbouring samples that are read one after another; None: that of
            the largest shard.
        subset: The samples to use; by default all.
        split_config: Name of the split file in ``.nv-meta``.
        sample_type: Class of the samples; by default the class's ``__sample_type__``.
        field_map: Part, or value in a part, of each field: ``{"image": "jpg", "caption": "json[caption]"}``.
        sample_loader: Function from a dict of the parts to a dict of the fields; or ``"file.py:function"``, in
            ``.nv-meta``.
        part_filter: Names of the needed parts, or a function that returns True for these; or ``"file.py:function"``.
        subflavors: Labels of all samples.
        decoder: Decoder of the parts; None leaves them bytes.
        trust_code: Allow the dataset to run its code and to load pickles.
        filter_name: Name of the filter that selects samples; None keeps all.

    Raises:
        ConfigError: A number is out of range.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        split_part: str | None = None,
        training: bool = True,
        worker_config: WorkerConfig | None = None,
        shuffle_over_epochs: int | None = 1,
        parallel_shard_iters: int | None = None,
        max_samples_per_sequence: int | None = None,
        subset: DatasetSubset | Sequence[SubsetRange] | None = None,
        split_config: str | None = None,
        sample_type: type[T_co] | None = None,
        field_map: Mapping[str, str] | None = None,
        sample_loader: str | Callable[..., Any] | None = None,
        part_filter: str | Sequence[str] | Callable[[str], Any] | None = None,
        subflavors: Mapping[str, Any] | None = None,
        decoder: AnyDecoder | OfTheRun | None = None,
        trust_code: bool = False,
        filter_name: str | None = None,
        meta_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        BaseCoreDatasetFactory.__init__(
            self,
            training=training,
            worker_config=worker_config,
            shuffle_over_epochs=shuffle_over_epochs,
            parallel_shard_iters=parallel_shard_iters,
            max_samples_per_sequence=max_samples_per_sequence,
            subset=subset,
        )
        DescribedDataset.__init__(
            self,
            path,
            sample_type=sample_type,
            field_map=field_map,
            sample_loader=sample_loader,
            part_filter=part_filter,
            subflavors=subflavors,
            decoder=decoder,
            trust_code=trust_code,
        )
        self.paths = [self.path]
        self.split_part = split_part or ("train" if training else "val")
        self.split_config = split_config or SPLIT_YAML
        self.filter_name = filter_name
        given = resolve_meta_folder(meta_folder, str(self.path))
        self._meta_folder = None if given is None else EPath(given)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "source"}

    @cached_property
    def source(self) -> DatasetSource:
        """The source that the stages read."""
        request = LoadRequest(
            path=str(self.path),
            split_part=self.split_part,
            split_config=self.split_config,
            meta_folder=None if self._meta_folder is None else str(self._meta_folder),
            filter=self.filter_name,
            subset=tuple(self.subset),
            trust_code=self.trust_code,
        )
        return DatasetSource(request=request, decoder=self._decoder, described=self)

    @property
    def shards(self) -> list[ShardInfo]:
        """Shards of the split part, without excluded and empty ones."""
        return self._meta().shards

    @property
    def split_part_files(self) -> list[str]:
        """Names of the shards of the split part, without excluded ones."""
        return self._meta().split_part_files

    @property
    def sample_excludes(self) -> set[str]:
        """Samples that the split excludes, as ``shard/key``."""
        return self._meta().sample_excludes

    def _meta(self) -> WebdatasetMeta:
        return WebdatasetMeta.from_config(
            self.path, split_part=self.split_part, split_config=self.split_config, meta_folder=self._meta_folder
        )

    def as_file_store(self) -> FileStore[bytes]:
        """Return the store of the dataset's parts, by name, as bytes.

        Raises:
            StorageError: The folder is missing or not prepared.
        """
        return DatasetFileStore(self.path, meta_folder=self._meta_folder)


class DefaultGenericWebdatasetFactory(BaseWebdatasetFactory[T_co]):
    """A dataset of shards, whose samples are built by a field map, or by a function of the parts' bytes."""


class DefaultDecoderWebdatasetFactory(DefaultGenericWebdatasetFactory[T_co]):
    """A dataset of shards, whose parts are decoded; derive your own dataset classes from it.

    >>> from loader import TextSample
    >>> class Poems(DefaultDecoderWebdatasetFactory[TextSample]):
    ...     __sample_type__ = TextSample
    ...
    ...     def __init__(self, path, **kwargs):
    ...         super().__init__(path, field_map={"text": "txt"}, **kwargs)

    Args:
        path: The dataset's folder.
        decoder: Decoder of the parts; by default that of the run's task encoder. None leaves them bytes.
        **kwargs: Arguments of :class:`BaseWebdatasetFactory`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        decoder: AnyDecoder | OfTheRun | None = OfTheRun.DECODER,
        **kwargs: Any,
    ) -> None:
        super().__init__(path, decoder=decoder, **kwargs)


class StandardWebdatasetFactory(DefaultDecoderWebdatasetFactory[T_co]):
    """A dataset of shards with samples of a given type.

    Args:
        path: The dataset's folder.
        sample_type: Class of the samples.
        **kwargs: Arguments of :class:`BaseWebdatasetFactory`.
    """

    def __init__(self, path: str | os.PathLike[str], *, sample_type: type[T_co], **kwargs: Any) -> None:
        super().__init__(path, sample_type=sample_type, **kwargs)
