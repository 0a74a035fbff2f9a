from loader.integrations.megatron_energon_names import (
    MediaFilterConfig,
    prepare_filesystem_dataset,
    serialize_media_metadata,
)
from loader.storage.epath import EPath

from ..flavors.webdataset.config import INDEX_SQLITE_FILENAME, MAIN_FOLDER_NAME

__all__ = [
    "INDEX_SQLITE_FILENAME",
    "MAIN_FOLDER_NAME",
    "EPath",
    "MediaFilterConfig",
    "prepare_filesystem_dataset",
    "serialize_media_metadata",
]
