from loader.pipeline.map import MapDataset
from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig
from loader.stores.file_store import FileStore

__all__ = ["FileStore", "MapDataset", "SavableDataset", "WorkerConfig"]
