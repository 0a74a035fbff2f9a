from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig
from loader.stores.cache_pool import CachePool
from loader.training.data_loader import SavableDataLoader
from loader.training.get_loader import get_loader, get_savable_loader

__all__ = ["CachePool", "SavableDataLoader", "SavableDataset", "WorkerConfig", "get_loader", "get_savable_loader"]
