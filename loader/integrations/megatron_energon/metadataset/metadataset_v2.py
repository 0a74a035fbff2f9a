from loader.training.dataset_loader import MetadatasetV2

__all__ = ["MetadatasetV2"]
