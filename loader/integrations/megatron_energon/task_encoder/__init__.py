from .base import (
    AugmentTaskEncoder,
    Batch,
    DefaultTaskEncoder,
    TaskEncoder,
    batch_list,
    batch_pad_stack,
    batch_stack,
    generic_batch,
    skip_safe,
    stateless,
)
from .cooking import Cooker, basic_sample_keys, cooker
from .loader import get_train_dataset, get_val_dataset, get_val_datasets

__all__ = [
    "AugmentTaskEncoder",
    "Batch",
    "Cooker",
    "DefaultTaskEncoder",
    "TaskEncoder",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "cooker",
    "generic_batch",
    "get_train_dataset",
    "get_val_dataset",
    "get_val_datasets",
    "skip_safe",
    "stateless",
]
