# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import DecodeFileStore as DecodeFileStore
from loader import JsonlFileStore as JsonlFileStore
from loader import SystemFileStore as SystemFileStore
from loader.compat.dataset_facts import INDEX_SQLITE_FILENAME as INDEX_SQLITE_FILENAME
from loader.format.nv_meta import FOLDER as _FOLDER
MAIN_FOLDER_NAME = _FOLDER
from loader.stores.dataset_file_store import DatasetFileStore as _DatasetFileStore
WebdatasetFileStore = _DatasetFileStore
