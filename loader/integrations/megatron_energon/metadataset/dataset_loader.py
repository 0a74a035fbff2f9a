from loader.training.factories.dataset_from_path import DatasetLoader

__all__ = ["DatasetLoader"]
