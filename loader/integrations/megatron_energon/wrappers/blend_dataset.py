from loader.pipeline.blend import BlendDataset
from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig

__all__ = ["BlendDataset", "SavableDataset", "WorkerConfig"]
