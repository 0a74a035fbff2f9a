from loader.integrations.megatron_energon_names import MediaFilterConfig
from loader.storage.epath import EPath
from loader.training.factories.webdataset_preparator import WebdatasetPreparator

from .config import (
    INDEX_SQLITE_FILENAME,
    INDEX_UUID_FILENAME,
    INFO_JSON_FILENAME,
    INFO_YAML_FILENAME,
    MAIN_FOLDER_NAME,
)
from .structs import ShardInfo

__all__ = [
    "INDEX_SQLITE_FILENAME",
    "INDEX_UUID_FILENAME",
    "INFO_JSON_FILENAME",
    "INFO_YAML_FILENAME",
    "MAIN_FOLDER_NAME",
    "EPath",
    "MediaFilterConfig",
    "ShardInfo",
    "WebdatasetPreparator",
]
