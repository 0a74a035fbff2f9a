from loader.format.media.metadata import AVMetadata, ImageMetadata, MediaMetadataBase
from loader.integrations.megatron_energon_names import (
    MediaMetadataType,
    deserialize_media_metadata,
    serialize_media_metadata,
)
from loader.samples.sample_dataclass import edataclass

__all__ = [
    "AVMetadata",
    "ImageMetadata",
    "MediaMetadataBase",
    "MediaMetadataType",
    "deserialize_media_metadata",
    "edataclass",
    "serialize_media_metadata",
]
