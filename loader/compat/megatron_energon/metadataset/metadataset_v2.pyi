# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import MetadatasetV2 as MetadatasetV2
from loader.compat.dataset_facts import AuxFilesystemReference as AuxFilesystemReference
from loader.compat.dataset_facts import INDEX_SQLITE_FILENAME as INDEX_SQLITE_FILENAME
from loader.format.nv_meta import FOLDER as _FOLDER
MAIN_FOLDER_NAME = _FOLDER
