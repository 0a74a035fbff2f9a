from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig
from loader.training.watchdog_dataset import WatchdogDataset

__all__ = ["SavableDataset", "WatchdogDataset", "WorkerConfig"]
