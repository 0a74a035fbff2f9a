from typing import TYPE_CHECKING, NoReturn

from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.failures.sample_name import default_get_batch_keys
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.gc import GC_DEFAULT_EVERY_N_ITER, GcDataset
from loader.samples.sample_dataclass import edataclass
from loader.stores.cache_pool import CachePool
from loader.training.loaders.data_loader import DataLoader, SavableDataLoader
from loader.training.workers.watchdog import WatchdogDataset

from .not_served import not_served

__all__ = [
    "GC_DEFAULT_EVERY_N_ITER",
    "BasicDataLoader",
    "BatchDataset",
    "CachePool",
    "DataLoader",
    "GcDataset",
    "SavableDataLoader",
    "SavableDataset",
    "WatchdogDataset",
    "WorkerConfig",
    "default_get_batch_keys",
    "edataclass",
]

BasicDataLoader = DataLoader

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise not_served(__name__, name)
