from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.map import MapDataset
from loader.samples.building.described_dataset import FilteredSample
from loader.samples.encoding.task_encoder import T_sample
from loader.storage.epath import EPath
from loader.stores.file_store import FileStore
from loader.training.datasets.dataset_factory import BaseCoreDatasetFactory, DatasetSubset
from loader.training.factories.webdataset_factory import BaseWebdatasetFactory

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
