from loader.av.av_decoder import AVDecoder
from loader.format.media.metadata import ImageMetadata, MediaMetadataBase
from loader.integrations.megatron_energon_names import MediaFilterConfig, MediaFilterStrategy, MediaMetadataType
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
