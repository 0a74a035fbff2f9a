from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.task_encoder import T_sample
from loader.training.watchdog_dataset import WatchdogDataset

__all__ = ["SavableDataset", "T_sample", "WatchdogDataset", "WorkerConfig"]
