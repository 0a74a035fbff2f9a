from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.gc import GC_DEFAULT_EVERY_N_ITER
from loader.stores.cache_pool import CachePool
from loader.training.loaders.data_loader import DataLoader, SavableDataLoader
from loader.training.loaders.get_loader import get_loader, get_savable_loader

__all__ = [
    "GC_DEFAULT_EVERY_N_ITER",
    "CachePool",
    "DataLoader",
    "SavableDataLoader",
    "SavableDataset",
    "WorkerConfig",
    "get_loader",
    "get_savable_loader",
]
