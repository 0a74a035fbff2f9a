# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import BaseCoreDatasetFactory as BaseCoreDatasetFactory
from loader import CrudeSample as CrudeSample
from loader import DefaultCrudeJsonlDatasetFactory as DefaultCrudeJsonlDatasetFactory
from loader import EPath as EPath
from loader import StandardWebdatasetFactory as StandardWebdatasetFactory
from loader import WorkerConfig as WorkerConfig
from loader import get_dataset_from_config as get_dataset_from_config
from loader.compat.dataset_facts import EnergonDatasetType as EnergonDatasetType
from loader.compat.dataset_facts import get_dataset_type as get_dataset_type
from loader.compat.documents import JsonParser as JsonParser
from loader.compat.documents import load_config as load_config
from loader.format.nv_meta import FOLDER as _FOLDER
MAIN_FOLDER_NAME = _FOLDER
from loader.samples.encoding.task_encoder import T_sample as T_sample
