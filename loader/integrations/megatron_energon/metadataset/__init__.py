from .dataset_loader import DatasetLoader
from .loader import load_dataset, prepare_metadataset, traverse_metadataset
from .loader_interface import DatasetLoaderInterface
from .metadataset import Metadataset
from .metadataset_v2 import MetadatasetV2

__all__ = [
    "DatasetLoader",
    "DatasetLoaderInterface",
    "Metadataset",
    "MetadatasetV2",
    "load_dataset",
    "prepare_metadataset",
    "traverse_metadataset",
]
