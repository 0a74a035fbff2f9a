from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.blend import BlendDataset
from loader.samples.encoding.task_encoder import T_sample

__all__ = ["BlendDataset", "SavableDataset", "T_sample", "WorkerConfig"]
