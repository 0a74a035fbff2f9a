from loader.pipeline.blend import BlendDataset
from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.task_encoder import T_sample

__all__ = ["BlendDataset", "SavableDataset", "T_sample", "WorkerConfig"]
