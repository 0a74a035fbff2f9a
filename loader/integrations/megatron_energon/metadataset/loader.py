from loader.metadataset.prepare_metadataset import prepare_metadataset
from loader.metadataset.traverse import TraversedDatasetReference, traverse_metadataset
from loader.storage.epath import EPath
from loader.training.dataset_loader import DatasetLoader, DatasetLoaderInterface, Metadataset, load_dataset

__all__ = [
    "DatasetLoader",
    "DatasetLoaderInterface",
    "EPath",
    "Metadataset",
    "TraversedDatasetReference",
    "load_dataset",
    "prepare_metadataset",
    "traverse_metadataset",
]
