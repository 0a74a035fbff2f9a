from loader.metadataset.traverse import TraversedDatasetReference
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.keyword_dataclass import edataclass
from loader.stores.file_store import FileStore
from loader.training.dataset_loader import DatasetLoaderInterface

__all__ = ["DatasetLoaderInterface", "FileStore", "TraversedDatasetReference", "WorkerConfig", "edataclass"]
