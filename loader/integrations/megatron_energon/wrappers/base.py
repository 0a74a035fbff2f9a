from loader.pipeline.contract.restore_keys import (
    RestoreKey,
    SampleIndex,
    WrappedRestoreKey,
    add_sample_restore_key,
    get_sample_restore_key,
    wrap_sample_restore_key,
)
from loader.pipeline.contract.stage import SavableDataset
from loader.pipeline.contract.user_state import FlexState, Savable
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.wrapper import BaseSingleWrapperDataset, BaseWrapperDataset
from loader.samples.encoding.task_encoder import T_sample
from loader.samples.types import Sample

__all__ = [
    "BaseSingleWrapperDataset",
    "BaseWrapperDataset",
    "FlexState",
    "RestoreKey",
    "Sample",
    "SampleIndex",
    "Savable",
    "SavableDataset",
    "T_sample",
    "WorkerConfig",
    "WrappedRestoreKey",
    "add_sample_restore_key",
    "get_sample_restore_key",
    "wrap_sample_restore_key",
]
