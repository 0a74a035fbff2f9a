from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.blend import BlendDataset
from loader.pipeline.stages.concat import ConcatDataset
from loader.pipeline.stages.epochize import EpochizeDataset
from loader.pipeline.stages.group_batch import GroupBatchDataset
from loader.pipeline.stages.limit import LimitDataset
from loader.pipeline.stages.log_sample import LogSampleDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.packing import PackingDataset
from loader.pipeline.stages.repeat import RepeatDataset
from loader.pipeline.stages.shuffle_buffer import ShuffleBufferDataset
from loader.samples.batching.batch import Batch
from loader.samples.batching.collate import batch_list, batch_pad_stack, batch_stack, generic_batch
from loader.samples.decoding.decoder import SampleDecoder
from loader.samples.encoding.augment_task_encoder import AugmentTaskEncoder
from loader.samples.encoding.cooking import Cooker
from loader.samples.encoding.task_encoder import (
    DefaultTaskEncoder,
    T_batch,
    T_encoded_sample,
    T_raw_batch,
    T_sample,
    TaskEncoder,
)
from loader.samples.hooks import (
    failure_tolerance as get_failure_tolerance,
    is_stateless as get_stateless,
    skip_safe,
    stateless,
)
from loader.samples.sample_dataclass import ExtendableDataclassMixin, PinMemoryMixin, edataclass
from loader.samples.source_info import SourceInfo
from loader.samples.types import CrudeSample, Sample
from loader.stores.aux_store import PrimaryFileStore
from loader.stores.cache_pool import CachePool
from loader.stores.decode_file_store import DecodeFileStore
from loader.stores.file_store import FileStore
from loader.training.datasets.single_datasets import DatasetBlendMode, LoadedDataset
from loader.training.factories.webdatasets import CrudeWebdataset

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
    "skip_safe",
    "stateless",
]
