from loader.training.factories.dataset_from_path import Metadataset

__all__ = ["Metadataset"]
