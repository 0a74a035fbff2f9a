from loader.integrations.megatron_energon_names import (
    MediaFilterConfig,
    prepare_filesystem_dataset,
    serialize_media_metadata,
)
from loader.storage.epath import EPath

__all__ = ["EPath", "MediaFilterConfig", "prepare_filesystem_dataset", "serialize_media_metadata"]
