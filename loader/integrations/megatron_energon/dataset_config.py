from loader.format.nv_meta import FOLDER as MAIN_FOLDER_NAME
from loader.integrations.megatron_energon_names import EnergonDatasetType, get_dataset_type
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.samples.encoding.task_encoder import T_sample
from loader.samples.types import CrudeSample
from loader.storage.epath import EPath
from loader.training.datasets.dataset_factory import BaseCoreDatasetFactory
from loader.training.factories.dataset_from_config import get_dataset_from_config
from loader.training.factories.jsonl_factory import DefaultCrudeJsonlDatasetFactory
from loader.training.factories.webdataset_factory import StandardWebdatasetFactory

__all__ = [
    "MAIN_FOLDER_NAME",
    "BaseCoreDatasetFactory",
    "CrudeSample",
    "DefaultCrudeJsonlDatasetFactory",
    "EPath",
    "EnergonDatasetType",
    "StandardWebdatasetFactory",
    "T_sample",
    "WorkerConfig",
    "get_dataset_from_config",
    "get_dataset_type",
]
