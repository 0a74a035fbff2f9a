from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.samples.encoding.task_encoder import T_sample
from loader.training.workers.watchdog import WatchdogDataset

__all__ = ["SavableDataset", "T_sample", "WatchdogDataset", "WorkerConfig"]
