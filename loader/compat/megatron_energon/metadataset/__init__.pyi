# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import DatasetLoader as DatasetLoader
from loader import DatasetLoaderInterface as DatasetLoaderInterface
from loader import Metadataset as Metadataset
from loader import MetadatasetV2 as MetadatasetV2
from loader import load_dataset as load_dataset
from loader import prepare_metadataset as prepare_metadataset
from loader import traverse_metadataset as traverse_metadataset
