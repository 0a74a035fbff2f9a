from loader.format.media_metadata import AVMetadata, ImageMetadata, MediaMetadataBase
from loader.format.media_serialization import MediaMetadataType, deserialize_media_metadata, serialize_media_metadata
from loader.samples.keyword_dataclass import edataclass

__all__ = [
    "AVMetadata",
    "ImageMetadata",
    "MediaMetadataBase",
    "MediaMetadataType",
    "deserialize_media_metadata",
    "edataclass",
    "serialize_media_metadata",
]
