from loader.metadataset.dataset_type import EnergonDatasetType, get_dataset_type

__all__ = ["EnergonDatasetType", "get_dataset_type"]
