from loader.metadataset.dataset_subset import DatasetSubset
from loader.pipeline.map import MapDataset
from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.described_dataset import FilteredSample
from loader.samples.task_encoder import T_sample
from loader.storage.epath import EPath
from loader.stores.file_store import FileStore
from loader.training.dataset_factory import BaseCoreDatasetFactory
from loader.training.webdataset_factory import BaseWebdatasetFactory

__all__ = [
    "BaseCoreDatasetFactory",
    "BaseWebdatasetFactory",
    "DatasetSubset",
    "EPath",
    "FileStore",
    "FilteredSample",
    "MapDataset",
    "SavableDataset",
    "T_sample",
    "WorkerConfig",
]
