"""The energon dataset library: what a training script imports.

Importing this package imports next to nothing: a name is looked up in its module when it is first used (PEP 562), so a
program that only needs the exceptions pays neither for torch nor for numpy.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .version import __version__

__all__ = [
    "AugmentTaskEncoder",
    "BaseCoreDatasetFactory",
    "BaseWebdatasetFactory",
    "Batch",
    "BatchDataset",
    "BlendDataset",
    "CachePool",
    "CaptioningSample",
    "CaptioningWebdataset",
    "ConcatDataset",
    "ConfigError",
    "Cooker",
    "CrudeJsonlDatasetFactory",
    "CrudeSample",
    "CrudeWebdataset",
    "DatasetFileStore",
    "DatasetLoader",
    "DatasetLoaderInterface",
    "DecodeFileStore",
    "DefaultCrudeJsonlDatasetFactory",
    "DefaultDecoderWebdatasetFactory",
    "DefaultGenericWebdatasetFactory",
    "DefaultTaskEncoder",
    "DirectLazy",
    "EPath",
    "EmptyDatasetError",
    "EnergonDataloader",
    "EnergonError",
    "EnergonMultiModalDataModule",
    "EpochIndex",
    "EpochizeDataset",
    "FatalSampleError",
    "FileCacheLazy",
    "FileStore",
    "FileStoreCachePool",
    "FileStoreDecoder",
    "FilterDataset",
    "FormatError",
    "GcDataset",
    "GroupBatchDataset",
    "IdentityMultiEpochDatasetWrapper",
    "ImageClassificationSample",
    "ImageClassificationWebdataset",
    "ImageSample",
    "ImageWebdataset",
    "InterleavedSample",
    "InterleavedWebdataset",
    "IterMapDataset",
    "JoinedWebdatasetFactory",
    "Lazy",
    "LimitDataset",
    "LogSampleDataset",
    "MapDataset",
    "MegatronDataModule",
    "Metadataset",
    "MetadatasetV2",
    "MissingFileError",
    "MixBatchDataset",
    "MockLazy",
    "MultiChoiceVQASample",
    "MultiChoiceVQAWebdataset",
    "MultiEpochDataset",
    "MultiEpochDatasetResampler",
    "MultiEpochDatasetWrapper",
    "NoCachePool",
    "OCRSample",
    "OCRWebdataset",
    "PackingDataset",
    "PrimaryFileStore",
    "RandomAccessDataset",
    "RepeatDataset",
    "Sample",
    "SampleDecoder",
    "SampleError",
    "SavableDataLoader",
    "SavableDataset",
    "ShuffleBufferDataset",
    "SimilarityInterleavedSample",
    "SimilarityInterleavedWebdataset",
    "SizedDataset",
    "SkipSample",
    "SourceInfo",
    "StandardWebdatasetFactory",
    "StateError",
    "StorageError",
    "SystemFileStore",
    "TaskEncoder",
    "TextSample",
    "TextWebdataset",
    "TrustError",
    "VQAOCRSample",
    "VQAOCRWebdataset",
    "VQASample",
    "VQAWebdataset",
    "VidQASample",
    "VidQAWebdataset",
    "WatchdogDataset",
    "WorkerConfig",
    "WorkerError",
    "__version__",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "concat_pad",
    "cooker",
    "cyclic_iter",
    "edataclass",
    "generic_batch",
    "generic_concat",
    "get_dataset_from_config",
    "get_loader",
    "get_savable_loader",
    "get_train_dataset",
    "get_val_dataset",
    "get_val_datasets",
    "homogeneous_concat_mix",
    "load_dataset",
    "log_exception",
    "permute",
    "permute_array",
    "prepare_metadataset",
    "random_access",
    "reraise_exception",
    "stateless",
    "traverse_metadataset",
]

if not (find_spec("lightning") or find_spec("pytorch_lightning")):
    # So that `import *` works; who asks for it by name is told what to install.
    __all__.remove("MegatronDataModule")  # noqa: PYI056 - no list can say "where it is installed"

if TYPE_CHECKING:
    from .errors import (
        ConfigError,
        EmptyDatasetError,
        EnergonError,
        FatalSampleError,
        FormatError,
        SampleError,
        SkipSample,
        StateError,
        StorageError,
        TrustError,
        WorkerError,
    )
    from .integrations.cyclic_iter import cyclic_iter
    from .integrations.energon_data_module import EnergonMultiModalDataModule
    from .integrations.energon_dataloader import EnergonDataloader
    from .integrations.megatron_data_module import MegatronDataModule
    from .integrations.multi_epoch_dataset import (
        EpochIndex,
        IdentityMultiEpochDatasetWrapper,
        MultiEpochDataset,
        MultiEpochDatasetWrapper,
        SizedDataset,
    )
    from .integrations.multi_epoch_resampler import MultiEpochDatasetResampler
    from .metadataset.prepare_metadataset import prepare_metadataset
    from .metadataset.traverse import traverse_metadataset
    from .order.index_permutation import permute, permute_array
    from .pipeline.batch import BatchDataset
    from .pipeline.blend import BlendDataset
    from .pipeline.concat import ConcatDataset
    from .pipeline.epochize import EpochizeDataset
    from .pipeline.error_handlers import log_exception, reraise_exception
    from .pipeline.filter import FilterDataset
    from .pipeline.gc import GcDataset
    from .pipeline.group_batch import GroupBatchDataset
    from .pipeline.iter_map import IterMapDataset
    from .pipeline.limit import LimitDataset
    from .pipeline.log_sample import LogSampleDataset
    from .pipeline.map import MapDataset
    from .pipeline.mix_batch import MixBatchDataset
    from .pipeline.packing import PackingDataset
    from .pipeline.repeat import RepeatDataset
    from .pipeline.shuffle_buffer import ShuffleBufferDataset
    from .pipeline.stage import SavableDataset
    from .pipeline.worker_config import WorkerConfig
    from .samples.augment_task_encoder import AugmentTaskEncoder
    from .samples.batch import Batch
    from .samples.collate import batch_list, batch_pad_stack, batch_stack, generic_batch
    from .samples.concat import concat_pad, generic_concat, homogeneous_concat_mix
    from .samples.cooking import Cooker, basic_sample_keys, cooker
    from .samples.decoder import SampleDecoder
    from .samples.file_store_decoder import FileStoreDecoder
    from .samples.keyword_dataclass import edataclass
    from .samples.source_info import SourceInfo
    from .samples.stateless import stateless
    from .samples.task_encoder import DefaultTaskEncoder, TaskEncoder
    from .samples.types import (
        CaptioningSample,
        CrudeSample,
        ImageClassificationSample,
        ImageSample,
        InterleavedSample,
        MultiChoiceVQASample,
        OCRSample,
        Sample,
        SimilarityInterleavedSample,
        TextSample,
        VidQASample,
        VQAOCRSample,
        VQASample,
    )
    from .storage.epath import EPath
    from .stores.cache_pool import CachePool
    from .stores.dataset_file_store import DatasetFileStore
    from .stores.decode_file_store import DecodeFileStore
    from .stores.file_store import FileStore
    from .stores.file_store_cache_pool import FileCacheLazy, FileStoreCachePool
    from .stores.lazy import DirectLazy, Lazy, MockLazy
    from .stores.missing_file import MissingFileError
    from .stores.no_cache_pool import NoCachePool
    from .stores.primary_file_store import PrimaryFileStore
    from .stores.system_file_store import SystemFileStore
    from .training.data_loader import SavableDataLoader
    from .training.dataset_factory import BaseCoreDatasetFactory
    from .training.dataset_from_config import get_dataset_from_config
    from .training.dataset_loader import DatasetLoader, DatasetLoaderInterface, Metadataset, MetadatasetV2, load_dataset
    from .training.get_loader import get_loader, get_savable_loader
    from .training.joined_factory import JoinedWebdatasetFactory
    from .training.jsonl_factory import CrudeJsonlDatasetFactory, DefaultCrudeJsonlDatasetFactory
    from .training.random_access import RandomAccessDataset, random_access
    from .training.train_dataset import get_train_dataset
    from .training.val_dataset import get_val_dataset, get_val_datasets
    from .training.watchdog_dataset import WatchdogDataset
    from .training.webdataset_factory import (
        BaseWebdatasetFactory,
        DefaultDecoderWebdatasetFactory,
        DefaultGenericWebdatasetFactory,
        StandardWebdatasetFactory,
    )
    from .training.webdatasets import (
        CaptioningWebdataset,
        CrudeWebdataset,
        ImageClassificationWebdataset,
        ImageWebdataset,
        InterleavedWebdataset,
        MultiChoiceVQAWebdataset,
        OCRWebdataset,
        SimilarityInterleavedWebdataset,
        TextWebdataset,
        VidQAWebdataset,
        VQAOCRWebdataset,
        VQAWebdataset,
    )

_NAMES_OF_MODULE = {
    "errors": (
        "ConfigError",
        "EmptyDatasetError",
        "EnergonError",
        "FatalSampleError",
        "FormatError",
        "SampleError",
        "SkipSample",
        "StateError",
        "StorageError",
        "TrustError",
        "WorkerError",
    ),
    "integrations.cyclic_iter": ("cyclic_iter",),
    "integrations.energon_data_module": ("EnergonMultiModalDataModule",),
    "integrations.energon_dataloader": ("EnergonDataloader",),
    "integrations.megatron_data_module": ("MegatronDataModule",),
    "integrations.multi_epoch_dataset": (
        "EpochIndex",
        "IdentityMultiEpochDatasetWrapper",
        "MultiEpochDataset",
        "MultiEpochDatasetWrapper",
        "SizedDataset",
    ),
    "integrations.multi_epoch_resampler": ("MultiEpochDatasetResampler",),
    "metadataset.prepare_metadataset": ("prepare_metadataset",),
    "metadataset.traverse": ("traverse_metadataset",),
    "order.index_permutation": (
        "permute",
        "permute_array",
    ),
    "pipeline.batch": ("BatchDataset",),
    "pipeline.blend": ("BlendDataset",),
    "pipeline.concat": ("ConcatDataset",),
    "pipeline.epochize": ("EpochizeDataset",),
    "pipeline.error_handlers": (
        "log_exception",
        "reraise_exception",
    ),
    "pipeline.filter": ("FilterDataset",),
    "pipeline.gc": ("GcDataset",),
    "pipeline.group_batch": ("GroupBatchDataset",),
    "pipeline.iter_map": ("IterMapDataset",),
    "pipeline.limit": ("LimitDataset",),
    "pipeline.log_sample": ("LogSampleDataset",),
    "pipeline.map": ("MapDataset",),
    "pipeline.mix_batch": ("MixBatchDataset",),
    "pipeline.packing": ("PackingDataset",),
    "pipeline.repeat": ("RepeatDataset",),
    "pipeline.shuffle_buffer": ("ShuffleBufferDataset",),
    "pipeline.stage": ("SavableDataset",),
    "pipeline.worker_config": ("WorkerConfig",),
    "samples.augment_task_encoder": ("AugmentTaskEncoder",),
    "samples.batch": ("Batch",),
    "samples.collate": (
        "batch_list",
        "batch_pad_stack",
        "batch_stack",
        "generic_batch",
    ),
    "samples.concat": (
        "concat_pad",
        "generic_concat",
        "homogeneous_concat_mix",
    ),
    "samples.cooking": (
        "Cooker",
        "basic_sample_keys",
        "cooker",
    ),
    "samples.decoder": ("SampleDecoder",),
    "samples.file_store_decoder": ("FileStoreDecoder",),
    "samples.keyword_dataclass": ("edataclass",),
    "samples.source_info": ("SourceInfo",),
    "samples.stateless": ("stateless",),
    "samples.task_encoder": (
        "DefaultTaskEncoder",
        "TaskEncoder",
    ),
    "samples.types": (
        "CaptioningSample",
        "CrudeSample",
        "ImageClassificationSample",
        "ImageSample",
        "InterleavedSample",
        "MultiChoiceVQASample",
        "OCRSample",
        "Sample",
        "SimilarityInterleavedSample",
        "TextSample",
        "VQAOCRSample",
        "VQASample",
        "VidQASample",
    ),
    "storage.epath": ("EPath",),
    "stores.cache_pool": ("CachePool",),
    "stores.dataset_file_store": ("DatasetFileStore",),
    "stores.decode_file_store": ("DecodeFileStore",),
    "stores.file_store": ("FileStore",),
    "stores.file_store_cache_pool": (
        "FileCacheLazy",
        "FileStoreCachePool",
    ),
    "stores.lazy": (
        "DirectLazy",
        "Lazy",
        "MockLazy",
    ),
    "stores.missing_file": ("MissingFileError",),
    "stores.no_cache_pool": ("NoCachePool",),
    "stores.primary_file_store": ("PrimaryFileStore",),
    "stores.system_file_store": ("SystemFileStore",),
    "training.data_loader": ("SavableDataLoader",),
    "training.dataset_factory": ("BaseCoreDatasetFactory",),
    "training.dataset_from_config": ("get_dataset_from_config",),
    "training.dataset_loader": (
        "DatasetLoader",
        "DatasetLoaderInterface",
        "Metadataset",
        "MetadatasetV2",
        "load_dataset",
    ),
    "training.get_loader": (
        "get_loader",
        "get_savable_loader",
    ),
    "training.joined_factory": ("JoinedWebdatasetFactory",),
    "training.jsonl_factory": (
        "CrudeJsonlDatasetFactory",
        "DefaultCrudeJsonlDatasetFactory",
    ),
    "training.random_access": (
        "RandomAccessDataset",
        "random_access",
    ),
    "training.train_dataset": ("get_train_dataset",),
    "training.val_dataset": (
        "get_val_dataset",
        "get_val_datasets",
    ),
    "training.watchdog_dataset": ("WatchdogDataset",),
    "training.webdataset_factory": (
        "BaseWebdatasetFactory",
        "DefaultDecoderWebdatasetFactory",
        "DefaultGenericWebdatasetFactory",
        "StandardWebdatasetFactory",
    ),
    "training.webdatasets": (
        "CaptioningWebdataset",
        "CrudeWebdataset",
        "ImageClassificationWebdataset",
        "ImageWebdataset",
        "InterleavedWebdataset",
        "MultiChoiceVQAWebdataset",
        "OCRWebdataset",
        "SimilarityInterleavedWebdataset",
        "TextWebdataset",
        "VQAOCRWebdataset",
        "VQAWebdataset",
        "VidQAWebdataset",
    ),
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF_NAME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
