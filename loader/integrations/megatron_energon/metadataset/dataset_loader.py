from loader.training.dataset_loader import DatasetLoader

__all__ = ["DatasetLoader"]
