from loader.format.nv_meta import FOLDER as MAIN_FOLDER_NAME
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.types import CrudeSample

__all__ = ["MAIN_FOLDER_NAME", "CrudeSample", "WorkerConfig"]
