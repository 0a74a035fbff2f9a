from loader.metadataset.dataset_type import EnergonDatasetType, get_dataset_type
from loader.metadataset.prepare_metadataset import prepare_metadataset
from loader.metadataset.traverse import TraversedDatasetReference, traverse_metadataset
from loader.storage.epath import EPath
from loader.training.dataset_loader import DatasetLoader, DatasetLoaderInterface, Metadataset, load_dataset

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
