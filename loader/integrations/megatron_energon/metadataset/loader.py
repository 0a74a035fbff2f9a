from loader.metadataset.prepare_metadataset import prepare_metadataset
from loader.metadataset.traverse import TraversedDatasetReference, traverse_metadataset
from loader.training.dataset_loader import DatasetLoader, DatasetLoaderInterface, Metadataset, load_dataset

__all__ = [
    "DatasetLoader",
    "DatasetLoaderInterface",
    "Metadataset",
    "TraversedDatasetReference",
    "load_dataset",
    "prepare_metadataset",
    "traverse_metadataset",
]
