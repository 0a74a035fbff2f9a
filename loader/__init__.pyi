# The public names, each with the module that defines it. Read by __init__.py at run time and by type checkers.

from .compat.dataset_from_config import (
    BinIdxDatasetFactory as BinIdxDatasetFactory,
    CrudeJsonlDatasetFactory as CrudeJsonlDatasetFactory,
    CrudeParquetDatasetFactory as CrudeParquetDatasetFactory,
    DefaultBinIdxDatasetFactory as DefaultBinIdxDatasetFactory,
    DefaultCrudeJsonlDatasetFactory as DefaultCrudeJsonlDatasetFactory,
    get_dataset_from_config as get_dataset_from_config,
)
from .compat.dataset_from_path import (
    DatasetLoader as DatasetLoader,
    DatasetLoaderInterface as DatasetLoaderInterface,
    Metadataset as Metadataset,
    MetadatasetV2 as MetadatasetV2,
    Recipe as Recipe,
    load_dataset as load_dataset,
)
from .compat.joined_factory import JoinedWebdatasetFactory as JoinedWebdatasetFactory
from .compat.webdataset_factory import (
    BaseWebdatasetFactory as BaseWebdatasetFactory,
    DefaultDecoderWebdatasetFactory as DefaultDecoderWebdatasetFactory,
    DefaultGenericWebdatasetFactory as DefaultGenericWebdatasetFactory,
    StandardWebdatasetFactory as StandardWebdatasetFactory,
    prepare_dataset as prepare_dataset,
)
from .compat.webdatasets import (
    CaptioningWebdataset as CaptioningWebdataset,
    ConversationWebdataset as ConversationWebdataset,
    CrudeWebdataset as CrudeWebdataset,
    ImageClassificationWebdataset as ImageClassificationWebdataset,
    ImageWebdataset as ImageWebdataset,
    InterleavedWebdataset as InterleavedWebdataset,
    MultiChoiceVQAWebdataset as MultiChoiceVQAWebdataset,
    OCRWebdataset as OCRWebdataset,
    SimilarityInterleavedWebdataset as SimilarityInterleavedWebdataset,
    TextWebdataset as TextWebdataset,
    VidQAWebdataset as VidQAWebdataset,
    VQAOCRWebdataset as VQAOCRWebdataset,
    VQAWebdataset as VQAWebdataset,
)
from .convert.writing.shard_writer import ShardWriter as ShardWriter
from .errors import (
    ConfigError as ConfigError,
    EmptyDatasetError as EmptyDatasetError,
    EnergonError as EnergonError,
    FatalSampleError as FatalSampleError,
    FormatError as FormatError,
    MissingPackageError as MissingPackageError,
    RepeatedSampleError as RepeatedSampleError,
    SampleError as SampleError,
    SkipSample as SkipSample,
    StateError as StateError,
    StorageError as StorageError,
    TrustError as TrustError,
    WorkerError as WorkerError,
)
from .format.documents.conversation import Turn as Turn
from .format.filters.build import (
    build_filter_index as build_filter_index,
    build_filter_index_from_shard_indexes as build_filter_index_from_shard_indexes,
)
from .integrations.energon_data_module import (
    EnergonDataloader as EnergonDataloader,
    EnergonMultiModalDataModule as EnergonMultiModalDataModule,
    cyclic_iter as cyclic_iter,
)
from .integrations.megatron_data_module import MegatronDataModule as MegatronDataModule
from .integrations.multi_epoch_dataset import (
    EpochIndex as EpochIndex,
    IdentityMultiEpochDatasetWrapper as IdentityMultiEpochDatasetWrapper,
    MultiEpochDataset as MultiEpochDataset,
    MultiEpochDatasetResampler as MultiEpochDatasetResampler,
    MultiEpochDatasetWrapper as MultiEpochDatasetWrapper,
    SizedDataset as SizedDataset,
)
from .metadataset.joins.prepare_metadataset import (
    prepare_metadataset as prepare_metadataset,
    prepare_recipe as prepare_recipe,
)
from .metadataset.plans.plan_leaves import traverse_metadataset as traverse_metadataset
from .notebook.opened_dataset import OpenedDataset as OpenedDataset, open_dataset as open_dataset
from .order.index_permutation import (
    permute as permute,
    permute_array as permute_array,
)
from .pipeline.contract.stage import SavableDataset as SavableDataset
from .pipeline.contract.worker_config import WorkerConfig as WorkerConfig
from .pipeline.failures.error_handlers import log_exception as log_exception, reraise_exception as reraise_exception
from .pipeline.stages.batch import BatchDataset as BatchDataset
from .pipeline.stages.blend import BlendDataset as BlendDataset, MixBatchDataset as MixBatchDataset
from .pipeline.stages.collect_garbage import GcDataset as GcDataset
from .pipeline.stages.concat import ConcatDataset as ConcatDataset
from .pipeline.stages.epochize import EpochizeDataset as EpochizeDataset
from .pipeline.stages.filter import FilterDataset as FilterDataset
from .pipeline.stages.group_batch import GroupBatchDataset as GroupBatchDataset
from .pipeline.stages.iter_map import IterMapDataset as IterMapDataset
from .pipeline.stages.limit import LimitDataset as LimitDataset
from .pipeline.stages.map import MapDataset as MapDataset
from .pipeline.stages.observers import LogSampleDataset as LogSampleDataset
from .pipeline.stages.packing import PackingDataset as PackingDataset
from .pipeline.stages.repeat import RepeatDataset as RepeatDataset
from .pipeline.stages.shuffle_buffer import ShuffleBufferDataset as ShuffleBufferDataset
from .pipeline.stages.sort_pool import SortPoolDataset as SortPoolDataset
from .samples.batching.batch import Batch as Batch
from .samples.batching.collate import (
    batch_list as batch_list,
    batch_pad_stack as batch_pad_stack,
    batch_stack as batch_stack,
    generic_batch as generic_batch,
)
from .samples.batching.concat import (
    concat_pad as concat_pad,
    generic_concat as generic_concat,
    homogeneous_concat_mix as homogeneous_concat_mix,
)
from .samples.batching.empty_batch import empty_batch as empty_batch
from .samples.batching.pack import concat_pack as concat_pack
from .samples.batching.padding_marks import is_padding as is_padding
from .samples.decoding.decoder import FileStoreDecoder as FileStoreDecoder, SampleDecoder as SampleDecoder
from .samples.edataclass import edataclass as edataclass
from .samples.encoding.augment_task_encoder import AugmentTaskEncoder as AugmentTaskEncoder
from .samples.encoding.cooking import Cooker as Cooker, basic_sample_keys as basic_sample_keys, cooker as cooker
from .samples.encoding.size_metric import sample_size_metric as sample_size_metric
from .samples.encoding.task_encoder import (
    DefaultTaskEncoder as DefaultTaskEncoder,
    PackedSamplesOutput as PackedSamplesOutput,
    TaskEncoder as TaskEncoder,
)
from .samples.hook_marks import skip_safe as skip_safe, stateless as stateless
from .samples.source_info import SourceInfo as SourceInfo
from .samples.types import (
    CaptioningSample as CaptioningSample,
    ConversationSample as ConversationSample,
    CrudeSample as CrudeSample,
    ImageClassificationSample as ImageClassificationSample,
    ImageSample as ImageSample,
    InterleavedSample as InterleavedSample,
    MultiChoiceVQASample as MultiChoiceVQASample,
    OCRSample as OCRSample,
    Sample as Sample,
    SimilarityInterleavedSample as SimilarityInterleavedSample,
    TextSample as TextSample,
    VidQASample as VidQASample,
    VQAOCRSample as VQAOCRSample,
    VQASample as VQASample,
    join_parts as join_parts,
)
from .storage.epath import EPath as EPath
from .stores.aux_store import PrimaryFileStore as PrimaryFileStore
from .stores.cache_pool import (
    CachePool as CachePool,
    DirectLazy as DirectLazy,
    Lazy as Lazy,
    MockLazy as MockLazy,
    NoCachePool as NoCachePool,
)
from .stores.dataset_file_store import DatasetFileStore as DatasetFileStore
from .stores.decode_store import DecodeFileStore as DecodeFileStore
from .stores.file_store import FileStore as FileStore, MissingFileError as MissingFileError
from .stores.file_store_cache_pool import (
    FileCacheLazy as FileCacheLazy,
    FileStoreCachePool as FileStoreCachePool,
)
from .stores.record_file_stores import BinIdxFileStore as BinIdxFileStore, JsonlFileStore as JsonlFileStore
from .stores.system_file_store import SystemFileStore as SystemFileStore
from .training.datasets.dataset_factory import BaseCoreDatasetFactory as BaseCoreDatasetFactory
from .training.datasets.get_datasets import (
    get_train_dataset as get_train_dataset,
    get_val_dataset as get_val_dataset,
    get_val_datasets as get_val_datasets,
)
from .training.datasets.random_access import RandomAccessDataset as RandomAccessDataset, random_access as random_access
from .training.loaders.data_loader import DataLoader as DataLoader, SavableDataLoader as SavableDataLoader
from .training.loaders.get_loader import get_loader as get_loader, get_savable_loader as get_savable_loader
from .training.stats.options import StatsOptions as StatsOptions
from .training.stats.profile import LoaderProfile as LoaderProfile
from .training.stats.snapshot import LoaderStats as LoaderStats
from .training.workers.watchdog import WatchdogDataset as WatchdogDataset
from .version import __version__ as __version__
