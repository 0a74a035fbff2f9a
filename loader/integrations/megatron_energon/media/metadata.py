from loader.format.media_metadata import AVMetadata, ImageMetadata, MediaMetadataBase
from loader.format.media_metadata import decode_media_metadata as deserialize_media_metadata
from loader.format.media_metadata import encode_media_metadata as serialize_media_metadata
from loader.samples.keyword_dataclass import edataclass

__all__ = [
    "AVMetadata",
    "ImageMetadata",
    "MediaMetadataBase",
    "deserialize_media_metadata",
    "edataclass",
    "serialize_media_metadata",
]
