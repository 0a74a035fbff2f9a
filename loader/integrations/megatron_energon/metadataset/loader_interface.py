from loader.metadataset.traverse import TraversedDatasetReference
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.keyword_dataclass import edataclass
from loader.storage.epath import EPath
from loader.stores.file_store import FileStore
from loader.training.dataset_factory import BaseCoreDatasetFactory
from loader.training.dataset_loader import DatasetLoaderInterface

__all__ = [
    "BaseCoreDatasetFactory",
    "DatasetLoaderInterface",
    "EPath",
    "FileStore",
    "TraversedDatasetReference",
    "WorkerConfig",
    "edataclass",
]
