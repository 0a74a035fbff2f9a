from loader.training.factories.dataset_from_path import MetadatasetV2

__all__ = ["MetadatasetV2"]
