from loader.integrations.media_serialization import (
    MediaFilterConfig,
    prepare_filesystem_dataset,
    serialize_media_metadata,
)
from loader.storage.epath import EPath

__all__ = ["EPath", "MediaFilterConfig", "prepare_filesystem_dataset", "serialize_media_metadata"]
