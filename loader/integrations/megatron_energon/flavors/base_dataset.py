from typing import TYPE_CHECKING, NoReturn

from loader.pipeline.stage import SavableDataset
from loader.pipeline.worker_config import WorkerConfig
from loader.samples.dataclass_mixins import ExtendableDataclassMixin, PinMemoryMixin
from loader.samples.keyword_dataclass import edataclass
from loader.samples.source_info import SourceInfo
from loader.samples.task_encoder import T_sample
from loader.samples.types import Sample
from loader.storage.epath import EPath
from loader.stores.file_store import FileStore
from loader.training.dataset_factory import BaseCoreDatasetFactory

from ..not_served import not_served

__all__ = [
    "BaseCoreDatasetFactory",
    "EPath",
    "ExtendableDataclassMixin",
    "FileStore",
    "PinMemoryMixin",
    "Sample",
    "SavableDataset",
    "SourceInfo",
    "T_sample",
    "WorkerConfig",
    "edataclass",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise not_served(__name__, name)
