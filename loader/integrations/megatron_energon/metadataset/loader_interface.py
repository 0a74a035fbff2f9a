from loader.metadataset.dataset_subset import DatasetSubset
from loader.metadataset.traverse import TraversedDatasetReference
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.keyword_dataclass import edataclass
from loader.storage.epath import EPath
from loader.stores.file_store import FileStore
from loader.training.dataset_factory import BaseCoreDatasetFactory
from loader.training.dataset_loader import DatasetLoaderInterface
from loader.training.loaded_dataset import DatasetBlendMode, LoadedDataset
from loader.training.loaded_datasets import LoadedDatasets as LoadedDatasetList

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
