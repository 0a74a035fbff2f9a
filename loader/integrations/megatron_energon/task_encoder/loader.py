from loader.training.datasets.get_datasets import get_train_dataset, get_val_dataset, get_val_datasets

__all__ = ["get_train_dataset", "get_val_dataset", "get_val_datasets"]
