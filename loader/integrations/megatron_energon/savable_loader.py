from typing import TYPE_CHECKING, NoReturn

from loader.pipeline.batch import BatchDataset
from loader.pipeline.gc import GcDataset
from loader.pipeline.sample_name import default_get_batch_keys
from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.keyword_dataclass import edataclass
from loader.stores.cache_pool import CachePool
from loader.training.data_loader import SavableDataLoader
from loader.training.watchdog_dataset import WatchdogDataset

from .not_served import not_served

__all__ = [
    "BatchDataset",
    "CachePool",
    "GcDataset",
    "SavableDataLoader",
    "SavableDataset",
    "WatchdogDataset",
    "WorkerConfig",
    "default_get_batch_keys",
    "edataclass",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise not_served(__name__, name)
