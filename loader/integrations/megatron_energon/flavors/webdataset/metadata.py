from loader.integrations.megatron_energon_names import EnergonDatasetType, get_dataset_type

__all__ = ["EnergonDatasetType", "get_dataset_type"]
