# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import BaseCoreDatasetFactory as BaseCoreDatasetFactory
from loader import DatasetLoaderInterface as DatasetLoaderInterface
from loader import EPath as EPath
from loader import FileStore as FileStore
from loader import WorkerConfig as WorkerConfig
from loader import edataclass as edataclass
from loader.metadataset.plans.plan_leaves import TraversedDatasetReference as TraversedDatasetReference
from loader.training.datasets.dataset_factory import DatasetBlendMode as DatasetBlendMode
from loader.training.datasets.dataset_factory import DatasetSubset as DatasetSubset
from loader.training.datasets.dataset_factory import LoadedDataset as LoadedDataset
from loader.training.datasets.run_datasets import LoadedDatasets as _LoadedDatasets
LoadedDatasetList = _LoadedDatasets
