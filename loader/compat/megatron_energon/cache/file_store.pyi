# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import DecodeFileStore as DecodeFileStore
from loader import JsonlFileStore as JsonlFileStore
from loader import SystemFileStore as SystemFileStore
from loader.stores.dataset_file_store import DatasetFileStore as _DatasetFileStore
WebdatasetFileStore = _DatasetFileStore
from megatron.energon.flavors.webdataset.config import INDEX_SQLITE_FILENAME as INDEX_SQLITE_FILENAME
from megatron.energon.flavors.webdataset.config import MAIN_FOLDER_NAME as MAIN_FOLDER_NAME
