from loader.av.av_decoder import AVDecoder
from loader.format.media.metadata import ImageMetadata, MediaMetadataBase
from loader.integrations.media_serialization import MediaFilterConfig, MediaFilterStrategy, MediaMetadataType
from loader.storage.epath import EPath

__all__ = [
    "AVDecoder",
    "EPath",
    "ImageMetadata",
    "MediaFilterConfig",
    "MediaFilterStrategy",
    "MediaMetadataBase",
    "MediaMetadataType",
]
