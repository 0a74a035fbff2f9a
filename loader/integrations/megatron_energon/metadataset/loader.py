from loader.integrations.megatron_energon_names import EnergonDatasetType, get_dataset_type
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from loader.metadataset.plans.traverse import TraversedDatasetReference, traverse_metadataset
from loader.storage.epath import EPath
from loader.training.factories.dataset_from_path import DatasetLoader, DatasetLoaderInterface, Metadataset, load_dataset

__all__ = [
    "DatasetLoader",
    "DatasetLoaderInterface",
    "EPath",
    "EnergonDatasetType",
    "Metadataset",
    "TraversedDatasetReference",
    "get_dataset_type",
    "load_dataset",
    "prepare_metadataset",
    "traverse_metadataset",
]
