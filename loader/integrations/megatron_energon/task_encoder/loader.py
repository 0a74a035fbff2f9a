from loader.training.train_dataset import get_train_dataset
from loader.training.val_dataset import get_val_dataset, get_val_datasets

__all__ = ["get_train_dataset", "get_val_dataset", "get_val_datasets"]
