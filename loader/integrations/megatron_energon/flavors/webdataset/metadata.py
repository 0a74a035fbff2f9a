from loader.integrations.dataset_type import EnergonDatasetType, get_dataset_type

__all__ = ["EnergonDatasetType", "get_dataset_type"]
