from loader.stores.dataset_file_store import DatasetFileStore as WebdatasetFileStore
from loader.stores.decode_file_store import DecodeFileStore
from loader.stores.record_file_stores import JsonlFileStore
from loader.stores.system_file_store import SystemFileStore

from ..flavors.webdataset.config import INDEX_SQLITE_FILENAME, MAIN_FOLDER_NAME

__all__ = [
    "INDEX_SQLITE_FILENAME",
    "MAIN_FOLDER_NAME",
    "DecodeFileStore",
    "JsonlFileStore",
    "SystemFileStore",
    "WebdatasetFileStore",
]
