from loader.training.dataset_loader import Metadataset

__all__ = ["Metadataset"]
