from dataclasses import dataclass

from loader.pipeline.contract.restore_keys import add_sample_restore_key, set_sample_restore_key
from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.contract.user_state import FlexState, Savable
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.samples.encoding.task_encoder import T_sample
from loader.samples.sample_dataclass import ExtendableDataclassMixin, PinMemoryMixin, edataclass
from loader.samples.source_info import SourceInfo
from loader.samples.types import Sample
from loader.storage.epath import EPath
from loader.stores.file_store import FileStore
from loader.training.datasets.dataset_factory import BaseCoreDatasetFactory

__all__ = [
    "BaseCoreDatasetFactory",
    "EPath",
    "ExtendableDataclassMixin",
    "FileStore",
    "FlexState",
    "PinMemoryMixin",
    "Sample",
    "Savable",
    "SavableDataset",
    "SourceInfo",
    "State",
    "T_sample",
    "WorkerConfig",
    "add_sample_restore_key",
    "edataclass",
    "set_sample_restore_key",
]


@dataclass(slots=True)
class State(ExtendableDataclassMixin):
    """Base of the states that megatron-energon saves. States of this library are plain data."""
