from loader.pipeline.batch import BatchDataset
from loader.pipeline.blend import BlendDataset
from loader.pipeline.concat import ConcatDataset
from loader.pipeline.epochize import EpochizeDataset
from loader.pipeline.group_batch import GroupBatchDataset
from loader.pipeline.limit import LimitDataset
from loader.pipeline.log_sample import LogSampleDataset
from loader.pipeline.map import MapDataset
from loader.pipeline.packing import PackingDataset
from loader.pipeline.repeat import RepeatDataset
from loader.pipeline.shuffle_buffer import ShuffleBufferDataset
from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.augment_task_encoder import AugmentTaskEncoder
from loader.samples.batch import Batch
from loader.samples.collate import batch_list, batch_pad_stack, batch_stack, generic_batch
from loader.samples.cooking import Cooker
from loader.samples.dataclass_mixins import ExtendableDataclassMixin, PinMemoryMixin
from loader.samples.decoder import SampleDecoder
from loader.samples.keyword_dataclass import edataclass
from loader.samples.source_info import SourceInfo
from loader.samples.stateless import failure_tolerance as get_failure_tolerance
from loader.samples.stateless import is_stateless as get_stateless
from loader.samples.stateless import stateless
from loader.samples.task_encoder import (
    DefaultTaskEncoder,
    T_batch,
    T_encoded_sample,
    T_raw_batch,
    T_sample,
    TaskEncoder,
)
from loader.samples.types import CrudeSample, Sample
from loader.stores.cache_pool import CachePool
from loader.stores.decode_file_store import DecodeFileStore
from loader.stores.file_store import FileStore
from loader.stores.primary_file_store import PrimaryFileStore
from loader.training.loaded_dataset import DatasetBlendMode, LoadedDataset
from loader.training.webdatasets import CrudeWebdataset

__all__ = [
    "AugmentTaskEncoder",
    "Batch",
    "BatchDataset",
    "BlendDataset",
    "CachePool",
    "ConcatDataset",
    "Cooker",
    "CrudeSample",
    "CrudeWebdataset",
    "DatasetBlendMode",
    "DecodeFileStore",
    "DefaultTaskEncoder",
    "EpochizeDataset",
    "ExtendableDataclassMixin",
    "FileStore",
    "GroupBatchDataset",
    "LimitDataset",
    "LoadedDataset",
    "LogSampleDataset",
    "MapDataset",
    "PackingDataset",
    "PinMemoryMixin",
    "PrimaryFileStore",
    "RepeatDataset",
    "Sample",
    "SampleDecoder",
    "SavableDataset",
    "ShuffleBufferDataset",
    "SourceInfo",
    "T_batch",
    "T_encoded_sample",
    "T_raw_batch",
    "T_sample",
    "TaskEncoder",
    "WorkerConfig",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "edataclass",
    "generic_batch",
    "get_failure_tolerance",
    "get_stateless",
    "stateless",
]
