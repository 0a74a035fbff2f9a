from loader.metadataset.plans.traverse import TraversedDatasetReference
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.samples.sample_dataclass import edataclass
from loader.storage.epath import EPath
from loader.stores.file_store import FileStore
from loader.training.datasets.dataset_factory import BaseCoreDatasetFactory, DatasetSubset
from loader.training.datasets.run_datasets import LoadedDatasets as LoadedDatasetList
from loader.training.datasets.single_datasets import DatasetBlendMode, LoadedDataset
from loader.training.factories.dataset_from_path import DatasetLoaderInterface

__all__ = [
    "BaseCoreDatasetFactory",
    "DatasetBlendMode",
    "DatasetLoaderInterface",
    "DatasetSubset",
    "EPath",
    "FileStore",
    "LoadedDataset",
    "LoadedDatasetList",
    "TraversedDatasetReference",
    "WorkerConfig",
    "edataclass",
]
